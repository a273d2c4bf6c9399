#pragma once

#include <cstdint>
#include <vector>

namespace accrue::proof {

struct CheckPlanInput {
  std::int64_t window_samples = 1;
  std::int64_t micro_batch = 1;    ///< that training takes
  double window_seconds = 0;       ///< of one window in such micro-batches
  std::int64_t other_windows = 0;  ///< that training's other ways take: folded, by ranks
};

/// What is compared on all of the window and what on its first samples only, since every pass over
/// it costs as much as a training step.
struct CheckPlan {
  std::int64_t subset = 1;          ///< samples of the many comparisons
  std::vector<std::int64_t> sizes;  ///< of micro-batches there
  bool orders = true;               ///< also reversed, shuffled and uneven
  std::int64_t steps = 3;           ///< optimizer steps of the short horizon; 0: none
  int noise_draws = 1;
  double windows = 0;  ///< what all takes, in windows; fp64 not counted
};

/// Everything on the whole window where that is a matter of seconds; else the largest subset and
/// the longest horizon that fit in five windows' time, of which two go to one pass over the window
/// and to the split that training takes, and one to each other way of training. Pure.
CheckPlan plan_checks(const CheckPlanInput& input);

}  // namespace accrue::proof
