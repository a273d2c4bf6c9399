#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "data/json/line_problem.h"

namespace accrue::data {

/// A value of JSON, or the problem in a text that is not JSON.
struct LineJson {
  nlohmann::ordered_json value;  ///< null if there is a problem
  std::optional<LineProblem> problem;
};

/// Reads JSON as Python's json reads it: inside the outermost array or object an integer keeps all
/// its digits (large_integer.h). A number of the line itself, such as its weight, stays a number.
/// Unlike there, an object that has a key twice is refused, at any depth: readers differ in which
/// value they take. So are values that are nested deeper than templates can render.
LineJson read_line_json(std::string_view text);

/// The same of JSON that a line has as text, such as its tools or the arguments of a call: integers
/// of its outermost array or object keep their digits, too, as templates show them.
LineJson read_inner_json(std::string_view text);

}  // namespace accrue::data
