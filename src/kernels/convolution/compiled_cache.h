#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

/// The common parts of both kinds of oneDNN convolutions: those of accrue's layers and weight
/// gradients of others.
namespace accrue::kernels::onednn {

/// The attributes of a primitive that works in memory passed to it.
inline dnnl::primitive_attr with_given_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// Whether oneDNN has an implementation besides the reference one, which exists for any shape and
/// is slower than ATen.
template <class Description>
bool is_fast(const Description& description) {
  return description &&
         std::string_view(description.impl_info_str()).find("ref") == std::string_view::npos;
}

/// An engine, and the objects compiled for it by `Key`; when there are many, all are dropped
/// together. Thread-safe.
template <class Key, class Compiled>
class CompiledCache {
 public:
  /// `compile(engine)` makes an object that does not exist yet.
  template <class Compile>
  std::shared_ptr<const Compiled> get(const Key& key, const Compile& compile) {
    const std::lock_guard lock(mutex_);
    auto& found = compiled_[key];
    if (!found) found = std::make_shared<const Compiled>(compile(engine_));
    const std::shared_ptr<const Compiled> result = found;
    if (compiled_.size() > capacity) compiled_.clear();
    return result;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  /// A ResNet has about sixty of them for each micro-batch size.
  static constexpr std::size_t capacity = 1024;
  std::mutex mutex_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::map<Key, std::shared_ptr<const Compiled>> compiled_;
};

}  // namespace accrue::kernels::onednn
