#pragma once

#include <optional>
#include <string_view>

#include "data/json/line_problem.h"

namespace accrue::data {

/// The problem of a line that is not JSON, with the key whose value is wrong; none if it is JSON.
std::optional<LineProblem> syntax_problem(std::string_view line);

/// `problem` of a line, or its syntax_problem(), which names the key.
LineProblem problem_in_words(LineProblem problem, std::string_view line);

}  // namespace accrue::data
