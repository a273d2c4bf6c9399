#include "data/json/open_keys.h"

#include <algorithm>

namespace accrue::data {
namespace {

/// Fewer are compared one by one, which is faster than hashing them.
constexpr std::size_t many_keys = 32;

}  // namespace

void OpenKeys::clear() {
  used_ = 0;
  objects_.clear();
}

void OpenKeys::open_object() { objects_.push_back({.begin = used_, .many = nullptr}); }

void OpenKeys::close_object() {
  used_ = objects_.back().begin;
  objects_.pop_back();
}

bool OpenKeys::add(const std::string& key) {
  Object& object = objects_.back();
  if (object.many) return object.many->insert(key).second;
  const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(object.begin);
  const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(used_);
  if (std::find(begin, end, key) != end) return false;
  if (used_ - object.begin == many_keys) {
    object.many = std::make_unique<std::unordered_set<std::string>>(begin, end);
    used_ = object.begin;
    return object.many->insert(key).second;
  }
  if (used_ == keys_.size()) keys_.emplace_back();
  keys_[used_++] = key;
  return true;
}

}  // namespace accrue::data
