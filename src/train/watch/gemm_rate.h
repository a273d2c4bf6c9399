#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "accrue/models/compute.h"

namespace accrue::train {

/// One matrix product: out[m, n] = a[m, k] b[k, n], `count` times.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

/// Large enough to show the machine's peak, and that of a device.
inline constexpr GemmShape peak_shape{.m = 2048, .n = 2048, .k = 2048, .count = 1};
inline constexpr GemmShape device_peak_shape{.m = 8192, .n = 8192, .k = 8192, .count = 1};
/// CPUs multiply fp16 so slowly that a small product is enough.
inline constexpr GemmShape slow_peak_shape{.m = 256, .n = 256, .k = 256, .count = 1};
inline GemmShape peak_shape_of(c10::Device device, models::Compute compute) {
  if (!device.is_cpu()) return device_peak_shape;
  return compute == models::Compute::fp16 ? slow_peak_shape : peak_shape;
}

/// FLOP/s of these products through the library's own GEMM, each run once, with its right operand
/// plain or packed, whichever is faster; weighted by their work.
double measure_gemm_rate(const std::vector<GemmShape>& shapes, models::Compute compute,
                         c10::Device device = c10::kCPU);

/// The best of three measurements of the device's peak shape.
double best_gemm_rate(models::Compute compute, c10::Device device = c10::kCPU);

/// The most bytes that a measurement of `shape` takes.
std::int64_t bytes_of_measurement(const GemmShape& shape, models::Compute compute);

}  // namespace accrue::train
