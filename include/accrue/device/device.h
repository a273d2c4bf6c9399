#pragma once

#include <c10/core/Device.h>

#include <string_view>

namespace accrue::device {

/// Opens the device `name`: "cpu", "cuda", "cuda:1", or another device type of torch. Loads the
/// separate libtorch library for it, if there is one next to libtorch_cpu. Call it before the first
/// use of pinned memory or of the device, since torch looks for such a library only once.
///
/// Throws a usage Error, with the driver's message, if the name is not a device, libtorch has no
/// library for it, the driver is missing or too old, or there are fewer devices.
c10::Device open(std::string_view name);

/// The first CUDA device if the machine has a driver and libtorch has its library for it, and
/// otherwise the CPU. It only looks for the driver, so it is fast on machines without one.
c10::Device best();

/// Waits until all work submitted to the device is done. Does nothing for the CPU.
void synchronize(c10::Device device);

}  // namespace accrue::device
