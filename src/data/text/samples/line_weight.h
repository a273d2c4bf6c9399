#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <variant>

#include "data/json/line_problem.h"

namespace accrue::data {

/// How much the loss of a line counts: its "weight", or 1; or the problem with it. `text` is the
/// source of `line`.
std::variant<float, LineProblem> weight_of_line(const nlohmann::ordered_json& line,
                                                std::string_view text);

}  // namespace accrue::data
