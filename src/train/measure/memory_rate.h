#pragma once

#include <c10/core/Device.h>

namespace accrue::train {

/// Bytes that a device's memory moves in a second, as STREAM counts them (McCalpin, 1995): c = a +
/// b over arrays that no cache holds reads two and writes one. The median of five measurements.
double measure_memory_rate(c10::Device device = c10::kCPU);

}  // namespace accrue::train
