#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <vector>

#include "train/measure/kernel_times.h"

namespace accrue::train {

/// What the kernels of `device` took while `work` ran, by the device's own clock as libtorch's
/// profiler (Kineto) reads it, the most time first; bytes and operations are not known. Waits for
/// the device before and after.
std::vector<KernelTime> device_times(c10::Device device, const std::function<void()>& work);

}  // namespace accrue::train
