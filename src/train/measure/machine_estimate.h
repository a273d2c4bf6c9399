#pragma once

#include <cstdint>
#include <optional>

#include "accrue/core/recompute.h"
#include "train/plan/plan_estimate.h"

namespace accrue::train {

/// How an estimated run fits into memory.budget.
struct BudgetEstimate {
  std::int64_t budget_bytes = 0;
  std::int64_t outside_bytes = 0;  ///< its share for the program itself and its reserve
  bool fits = false;
  /// The largest micro-batch that fits, or the stated one, with the least recomputation under which
  /// it fits; 0 if not even one sample fits.
  std::int64_t micro_batch = 0;
  Recompute recompute = Recompute::none;
  std::int64_t peak_bytes = 0;  ///< tensors, and memory outside them
  /// A budget that is sufficient by the same arithmetic, with the most recomputation.
  std::int64_t enough_bytes = 0;
};

/// This machine, and the cost of a step on it.
struct MachineEstimate {
  std::int64_t threads = 1;
  std::int64_t available_bytes = 0;
  double gflops =
      0;  ///< rate of a 2048 x 2048 x 2048 product in the config's precision, measured now
  /// Seconds of a step at that rate, the best that a run can reach, and at a quarter of it; none
  /// for a model whose operations are not known from its parameters (resnet).
  std::optional<double> least_step_seconds, most_step_seconds;
};

/// How the run fits into memory.budget; none if no budget is stated.
std::optional<BudgetEstimate> estimate_budget(const Config& config, const RunEstimate& estimate);

/// Estimates a step; measures the rate by multiplying matrices for about a second.
MachineEstimate estimate_on_this_machine(const Config& config, const RunEstimate& estimate);

}  // namespace accrue::train
