#pragma once

#include <cstdint>
#include <vector>

namespace accrue::proof {

struct CheckPlanInput {
  std::int64_t window_samples = 1;
  std::int64_t micro_batch = 1;  ///< that training takes
  double other_windows = 0;      ///< that other ways take: folded, by ranks, each by itself
  double flops_per_sample = 0;   ///< arithmetic of forward and backward
  double plain_cost = 1;         ///< of one plain pass, in passes as training runs them
  bool thorough = false;         ///< everything on all of the window, whatever it takes
};

/// What is compared on all of the window and what on its first samples only, since every pass over
/// it costs as much as a training step.
struct CheckPlan {
  std::int64_t subset = 1;          ///< samples of the many comparisons
  std::vector<std::int64_t> sizes;  ///< of micro-batches there
  std::int64_t steps = 3;           ///< optimizer steps of the short horizon
  int noise_draws = 1;
  double windows = 0;  ///< what all takes, in windows as training runs them; fp64 not counted
};

/// Everything on the whole window where that is little work; else the largest subset and the
/// longest horizon that fit in six windows' work, of which the window itself takes what it needs:
/// once as training runs it, once in plain passes, once in each other way. Splits, orders and steps
/// are never left out: where windows have few samples, that takes more, and `windows` tells. It
/// goes by work and not by the clock, so that a busy machine changes nothing. Pure.
CheckPlan plan_checks(const CheckPlanInput& input);

}  // namespace accrue::proof
