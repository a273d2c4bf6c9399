#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/template/values/template_value.h"

namespace accrue::data::jinja {

/// The position of a `for` in the sequence it walks over. It reads no further than necessary: the
/// condition of a loop may depend on what its body did before.
class LoopState {
 public:
  /// Whether the loop takes an item.
  using Condition = std::function<bool(const Value& item)>;
  LoopState(std::vector<Value> items, Condition condition)
      : items_(std::move(items)), condition_(std::move(condition)) {}

  /// Goes to the next item; false after the last one.
  bool advance();
  const Value& current() const { return current_; }

  /// loop.name; none if it has no such attribute.
  std::optional<Value> attribute(const std::string& name);
  /// loop.changed(values...) and loop.cycle(values...).
  bool changed(const std::vector<Value>& values, Work& work);
  Value cycle(const std::vector<Value>& values) const;

 private:
  /// Whether there is another item, read ahead.
  bool read_ahead();
  std::int64_t length();

  std::vector<Value> items_;
  Condition condition_;
  std::size_t next_ = 0;
  std::deque<Value> ahead_;
  std::optional<Value> previous_;
  Value current_;
  std::int64_t index_ = -1;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace accrue::data::jinja
