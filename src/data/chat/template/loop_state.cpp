#include "data/chat/template/loop_state.h"

#include <algorithm>

#include "data/chat/template/values/value_order.h"

namespace accrue::data::jinja {

bool LoopState::read_ahead() {
  while (ahead_.empty() && next_ < items_.size()) {
    const Value& item = items_[next_++];
    if (!condition_ || condition_(item)) ahead_.push_back(item);
  }
  return !ahead_.empty();
}

bool LoopState::advance() {
  if (!read_ahead()) return false;
  if (index_ >= 0) previous_ = std::move(current_);
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  ++index_;
  return true;
}

std::int64_t LoopState::length() {
  while (next_ < items_.size()) {
    const Value& item = items_[next_++];
    if (!condition_ || condition_(item)) ahead_.push_back(item);
  }
  return index_ + 1 + static_cast<std::int64_t>(ahead_.size());
}

std::optional<Value> LoopState::attribute(const std::string& name) {
  if (name == "index") return Value::integer(index_ + 1);
  if (name == "index0") return Value::integer(index_);
  if (name == "first") return Value::boolean(index_ == 0);
  if (name == "last") return Value::boolean(!read_ahead());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index_);
  if (name == "revindex0") return Value::integer(length() - index_ - 1);
  if (name == "previtem") return previous_ ? *previous_ : Value::undefined("the previous item");
  if (name == "nextitem") return read_ahead() ? ahead_.front() : Value::undefined("the next item");
  return std::nullopt;
}

bool LoopState::changed(const std::vector<Value>& values, Work& work) {
  const bool is_same = last_changed_ && std::ranges::equal(*last_changed_, values,
                                                           [&](const auto& one, const auto& other) {
                                                             return are_equal(one, other, work);
                                                           });
  if (!is_same) last_changed_ = values;
  return !is_same;
}

Value LoopState::cycle(const std::vector<Value>& values) const {
  if (values.empty()) throw Failure("values to go round for 'cycle'", "none");
  return values[static_cast<std::size_t>(index_) % values.size()];
}

}  // namespace accrue::data::jinja
