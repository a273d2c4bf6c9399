#pragma once

#include <c10/core/Device.h>

#include <string_view>

namespace accrue::device {

/// The device that `name` says: "cpu", "cuda", "cuda:1", or another type of torch's; loads what
/// libtorch has for it in a library of its own beside libtorch_cpu. To be called before the first
/// use of pinned memory or of the device, since torch looks for such a library once.
///
/// Throws a usage Error, with what the driver says, if the name is none of a device, libtorch
/// has no part for it, the driver is missing or too old, or there are fewer devices.
c10::Device open(std::string_view name);

/// The first CUDA device if the machine has a driver for one and libtorch the part for it; else
/// the CPU. Looks at the driver only, so that a machine without one loses no time.
c10::Device best();

/// Waits until all that was asked of the device is done. Nothing for the CPU.
void synchronize(c10::Device device);

}  // namespace accrue::device
