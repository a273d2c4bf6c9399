#pragma once

#include <cstdint>
#include <optional>

#include "accrue/core/recompute.h"
#include "train/plan/plan_estimate.h"

namespace accrue::train {

/// How a run that was only estimated goes within memory.budget.
struct BudgetEstimate {
  std::int64_t budget_bytes = 0;
  std::int64_t outside_bytes = 0;  ///< of it, for the program itself and its reserve
  bool fits = false;
  /// The largest micro-batch that fits (of a stated one: that), with the first recomputation that
  /// lets it; 0 where not even one sample fits.
  std::int64_t micro_batch = 0;
  Recompute recompute = Recompute::none;
  std::int64_t peak_bytes = 0;  ///< all of it: tensors, and what lies outside them
  /// By the same arithmetic, with the most recomputation: a budget that is enough.
  std::int64_t enough_bytes = 0;
};

/// This machine, and what a step takes on it.
struct MachineEstimate {
  std::int64_t threads = 1;
  std::int64_t available_bytes = 0;
  double gflops = 0;  ///< of a 2048 x 2048 x 2048 product in the config's precision, measured now
  /// From the best that a run can do, which is that rate, to a quarter of it; none of a model whose
  /// operations are not known from its parameters (resnet).
  std::optional<double> least_step_seconds, most_step_seconds;
};

/// There is no estimate where no budget is stated.
std::optional<BudgetEstimate> estimate_budget(const Config& config, const RunEstimate& estimate);

/// Multiplies matrices for about a second.
MachineEstimate estimate_on_this_machine(const Config& config, const RunEstimate& estimate);

}  // namespace accrue::train
