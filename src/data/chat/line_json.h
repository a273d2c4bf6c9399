#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "data/text/json_sample.h"

namespace accrue::data {

/// A value of JSON, or what keeps a text from being one.
struct LineJson {
  nlohmann::ordered_json value;  ///< null if there is a problem
  std::optional<LineProblem> problem;
};

/// Reads JSON as Python's json reads it: inside of the outermost array or object an integer keeps
/// its digits, however many (large_integer.h). A number of the line itself, such as its weight,
/// stays a number. Refused, unlike there, is an object with a key twice, at any depth: each reader
/// takes the value that it likes. So are values that are nested deeper than templates can show.
LineJson read_line_json(std::string_view text);

/// The same of JSON that a line has as text, such as its tools or the arguments of a call: integers
/// of its outermost array or object keep their digits, too, as templates show them.
LineJson read_inner_json(std::string_view text);

}  // namespace accrue::data
