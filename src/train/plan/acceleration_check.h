#pragma once

#include <string>

#include "train/workload/workload.h"

namespace accrue::train {

/// The result of comparing accrue's operations with libtorch's.
struct AccelerationCheck {
  bool agrees = false;
  AcceleratedCalls calls;  ///< the calls of a pass that accrue ran
  std::string finding;     ///< how, for people
};

/// Runs the first samples of the run that have a loss forward and backward, once in accrue's
/// operations, as training does, and once in libtorch's with the same masks. Compares the losses
/// and each parameter's gradient, within the bound that `verify` allows for rounding
/// (docs/numerics.md). The model must be accelerated; it is left as it was, running statistics
/// included. A pass that fails, also for lack of memory, counts as disagreement, not as an error.
AccelerationCheck check_acceleration(const Workload& work);

}  // namespace accrue::train
