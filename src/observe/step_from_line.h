#pragma once

#include <optional>
#include <string>

#include "accrue/core/step_report.h"

namespace accrue::observe {

/// Reads back a step from to_json_line(); values missing in the line are absent. None if it is
/// something else.
std::optional<StepReport> step_from_line(const std::string& line);

}  // namespace accrue::observe
