#pragma once

#include "train/workload/workload.h"
#include "verify/config/check_plan.h"

namespace accrue::proof {

struct WindowToCheck {
  std::int64_t samples = 1;
  std::int64_t micro_batch = 1;    ///< that training takes
  std::int64_t other_windows = 0;  ///< folded, by ranks
  bool thorough = false;
};

/// Whether what passes compute in is coarser than what sums are kept in, or sums are kept in units:
/// the window is then compared with its micro-batches each by itself, too.
bool is_coarse(const train::Config& config);

/// Whether sums are kept in bf16, with or without what rounding lost.
bool sums_are_bf16(const train::Config& config);
/// Whether sums are kept in less than the parameters' precision.
bool sums_are_coarse(const train::Config& config);

/// What the checks of a workload's window are planned from.
CheckPlanInput plan_input(const train::Workload& work, const WindowToCheck& window);

}  // namespace accrue::proof
