#pragma once

#include <string>

#include "train/workload/workload.h"

namespace accrue::train {

/// What a comparison of accrue's operations with libtorch's showed.
struct AccelerationCheck {
  bool agrees = false;
  AcceleratedCalls calls;  ///< what accrue did of a pass
  std::string finding;     ///< how, for people
};

/// Runs the first samples of the run that have a loss forward and backward in accrue's operations,
/// as training does, and in libtorch's with the same masks, and compares the losses and each
/// parameter's gradient, within the bound that `verify` has for what rounding makes of them
/// (docs/numerics.md). The model is to be accelerated; it is left as it was, running statistics
/// included. A pass that fails, by lack of memory too, is no agreement and no error.
AccelerationCheck check_acceleration(const Workload& work);

}  // namespace accrue::train
