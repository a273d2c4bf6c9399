#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/template/values/template_value.h"

namespace accrue::data::jinja {

/// The arguments of a call of a template's function, filter, test or method, each given by position
/// or by name. Throws a Failure that names the function if they do not fit it.
class CallArguments {
 public:
  std::string function;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Declares the possible arguments, in order; the first `needed` of them are required.
  void expect(const std::vector<std::string_view>& names, std::size_t needed = 0);

  /// After `expect`: the argument, or null if it was not given.
  const Value* find(std::string_view name) const;
  const Value& get(std::string_view name) const;
  /// The argument as a text, integer or boolean; `absent` if it was not given.
  std::string text(std::string_view name, std::string absent = "") const;
  std::int64_t integer(std::string_view name, std::int64_t absent) const;
  bool truth(std::string_view name, bool absent) const;

  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const;
};

}  // namespace accrue::data::jinja
