#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <variant>

#include "data/text/line_problem.h"

namespace accrue::data {

/// What the loss of a line counts: its "weight", or 1; or what is wrong with that. `text` is the
/// line of which `line` was made.
std::variant<float, LineProblem> weight_of_line(const nlohmann::ordered_json& line,
                                                std::string_view text);

}  // namespace accrue::data
