#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/template_value.h"

namespace accrue::data::jinja {

/// What a function, filter, test or method of a template was called with, each argument taken by
/// place or by name. Throws a Failure that names the function if they do not fit it.
class CallArguments {
 public:
  std::string function;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Says which arguments there may be, in order; of them the first `needed` must be there.
  void expect(const std::vector<std::string_view>& names, std::size_t needed = 0);

  /// After `expect`: the argument, or null if it was not given.
  const Value* find(std::string_view name) const;
  const Value& get(std::string_view name) const;
  /// The argument as a text, integer or truth; `absent` if it was not given.
  std::string text(std::string_view name, std::string absent = "") const;
  std::int64_t integer(std::string_view name, std::int64_t absent) const;
  bool truth(std::string_view name, bool absent) const;

  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const;
};

}  // namespace accrue::data::jinja
