#pragma once

#include <cstdint>
#include <vector>

namespace accrue::proof {

struct CheckPlanInput {
  std::int64_t window_samples = 1;
  std::int64_t micro_batch = 1;  ///< of training
  double other_windows = 0;      ///< of other methods: folded, by ranks, in separate passes
  double flops_per_sample = 0;   ///< arithmetic of forward and backward
  double plain_cost = 1;         ///< of one plain pass, in passes of training
  bool thorough = false;         ///< everything on all of the window, at any cost
};

/// Which comparisons use all of the window and which only its first samples, since every pass over
/// it costs as much as a training step.
struct CheckPlan {
  std::int64_t subset = 1;          ///< samples of most comparisons
  std::vector<std::int64_t> sizes;  ///< of micro-batches there
  std::int64_t steps = 3;           ///< optimizer steps of the short horizon
  int noise_draws = 1;
  double windows = 0;  ///< the cost of all, in windows of training; fp64 not counted
};

/// Everything on the whole window if that is little work; otherwise the largest subset and the
/// longest horizon that fit in six windows' work, of which the window itself takes what it needs:
/// once by training, once in plain passes, once by each other method. Splits, orders and steps are
/// never left out: if windows have few samples, the cost is higher, and `windows` shows it. The
/// plan depends on work and not on time, so a busy machine changes nothing. A pure function.
CheckPlan plan_checks(const CheckPlanInput& input);

}  // namespace accrue::proof
