#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace accrue::proof {

/// One requirement of training on a device.
struct DeviceCheck {
  std::string name;  ///< "linear with accumulation, bf16"
  bool passed = false;
  std::string detail;  ///< the largest relative error and its bound, or the failure
};

/// Runs accrue's operations on a device with small tensors: each operation, forward and backward,
/// in fp32 and bf16 against fp64 on the CPU; masks of dropout, with equal bits; gradients twice,
/// with equal bits; optimizers; sums and their norms; and the required functions of torch's
/// allocator and pinned memory. A device that passes all of it can be trained on. Takes seconds.
/// The bounds are those of rounding (docs/numerics.md) for sums of as many terms.
std::vector<DeviceCheck> check_device(c10::Device device);

/// Throws a usage Error that names the requirement that the device does not meet.
void expect_trainable(c10::Device device);

}  // namespace accrue::proof
