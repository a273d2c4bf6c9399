#pragma once

#include "train/workload/workload.h"
#include "verify/config/check_plan.h"

namespace accrue::proof {

struct WindowToCheck {
  std::int64_t samples = 1;
  std::int64_t micro_batch = 1;    ///< of training
  std::int64_t other_windows = 0;  ///< folded, by ranks
  bool thorough = false;
};

/// Whether passes compute in a coarser precision than the sums have, or sums are kept in units: the
/// window is then also compared with its micro-batches in separate passes.
bool is_coarse(const train::Config& config);

/// Whether sums are kept in bf16, with or without compensation.
bool sums_are_bf16(const train::Config& config);
/// Whether sums are kept in less than the parameters' precision.
bool sums_are_coarse(const train::Config& config);

/// The input for planning the checks of a workload's window.
CheckPlanInput plan_input(const train::Workload& work, const WindowToCheck& window);

}  // namespace accrue::proof
