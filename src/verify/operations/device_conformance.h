#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace accrue::proof {

/// One thing that training asks of a device.
struct DeviceCheck {
  std::string name;  ///< "linear with accumulation, bf16"
  bool passed = false;
  std::string detail;  ///< the largest relative error and its bound, or what was wrong
};

/// Runs what accrue does on a device with small tensors there: each operation, forward and
/// backward, in fp32 and bf16 against fp64 on the CPU; masks of dropout, to the bit; gradients
/// twice, to the bit; optimizers; sums and their norms; and what is asked of torch's allocator and
/// pinned memory. A device that passes all can be trained on. Takes seconds. The bounds are those
/// of rounding (docs/numerics.md) for sums of as many terms.
std::vector<DeviceCheck> check_device(c10::Device device);

/// Throws a usage Error that says what of it the device does not do.
void expect_trainable(c10::Device device);

}  // namespace accrue::proof
