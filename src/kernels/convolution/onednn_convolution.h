#pragma once

#include <compare>
#include <cstdint>

/// oneDNN's convolutions in plain C++, like onednn_gemm.h.
namespace accrue::kernels::onednn {

/// The sizes of a 2-d convolution of a square kernel; none of them is 0.
struct Convolution {
  std::int64_t batch = 0, in = 0, height = 0, width = 0;
  std::int64_t out = 0, out_height = 0, out_width = 0;
  std::int64_t kernel = 0, stride = 1, padding = 0;
  auto operator<=>(const Convolution&) const = default;
};

// Images (`x`, `grad`) are bf16 with their channels next to each other, weights bf16 [O, C, k, k];
// results are fp32 in the same layouts. Each returns false if oneDNN has no fast implementation,
// and throws a runtime Error if it fails. Thread-safe.

bool convolve(const Convolution& sizes, const void* x, const void* weight, float* result);
bool convolution_data_gradient(const Convolution& sizes, const void* grad, const void* weight,
                               float* x_gradient);
bool convolution_weight_gradient(const Convolution& sizes, const void* x, const void* grad,
                                 float* weight_gradient);

}  // namespace accrue::kernels::onednn
