#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/enum_words.h"
#include "observe/history/run_history.h"

namespace accrue::observe {

/// What speed is counted in.
enum class SpeedUnit { tokens, samples };
inline constexpr auto speed_unit_words =
    enum_words<SpeedUnit>({{SpeedUnit::tokens, "tokens"}, {SpeedUnit::samples, "samples"}});

struct Speed {
  double per_second = 0;
  SpeedUnit unit = SpeedUnit::tokens;
};

/// What all steps did over the seconds that they took together: tokens, or samples where no step
/// tells its tokens. The steps `warm_ups` are left out, unless there are no others; evaluations and
/// checkpoints are in no step's seconds.
std::optional<Speed> speed_of(const StepTable& table, const std::vector<std::int64_t>& warm_ups);

}  // namespace accrue::observe
