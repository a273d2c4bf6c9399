#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <vector>

#include "train/measure/kernel_times.h"

namespace accrue::train {

/// The time of each kernel of `device` while `work` ran, measured by the device's clock through
/// libtorch's profiler (Kineto), the most time first; bytes and operations are not known. Waits for
/// the device before and after.
std::vector<KernelTime> device_times(c10::Device device, const std::function<void()>& work);

}  // namespace accrue::train
