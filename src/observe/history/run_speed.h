#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/enum_words.h"
#include "observe/history/run_history.h"

namespace accrue::observe {

/// The unit of speed.
enum class SpeedUnit { tokens, samples };
inline constexpr auto speed_unit_words =
    enum_words<SpeedUnit>({{SpeedUnit::tokens, "tokens"}, {SpeedUnit::samples, "samples"}});

struct Speed {
  double per_second = 0;
  SpeedUnit unit = SpeedUnit::tokens;
};

/// The samples of each step, computed from the table's cumulative `samples`; NaN if the step before
/// is missing.
std::vector<double> samples_by_step(const StepTable& table);

/// The work of all steps over the seconds that they took together: tokens, or samples if no step
/// has its tokens. The steps `warm_ups` are left out, unless there are no others; evaluations are
/// not in a step's seconds; a step's waiting for the checkpoint before it is.
std::optional<Speed> speed_of(const StepTable& table, const std::vector<std::int64_t>& warm_ups);

}  // namespace accrue::observe
