#pragma once

#include <optional>
#include <string>
#include <utility>

#include "data/chat/template/values/template_value.h"

namespace accrue::data::jinja {

/// Python's str(): prints `{{ value }}`. Throws a Failure for values that print as an address.
std::string str_of(const Value& value, Work& work);
/// Python's repr().
std::string repr_of(const Value& value, Work& work);
/// Python's repr() of a float.
std::string float_text(double value);

struct JsonStyle {
  bool ascii = false;                 ///< other characters as \uXXXX
  std::optional<std::string> indent;  ///< of one level; none: all on one line
  std::string between_items = ", ", behind_key = ": ";
  bool sorts_keys = false;
};

/// Python's json.dumps(). Throws a Failure for values that JSON does not have.
std::string json_of(const Value& value, const JsonStyle& style, Work& work);

}  // namespace accrue::data::jinja
