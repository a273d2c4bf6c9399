#pragma once

#include <optional>
#include <string>

#include "accrue/core/step_report.h"

namespace accrue::observe {

/// Reads back what to_json_line() wrote of a step; what the line does not have is absent. Nothing
/// where it is something else.
std::optional<StepReport> step_from_line(const std::string& line);

}  // namespace accrue::observe
