#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accrue::kernels {

/// What at::convolution takes besides tensors.
struct ConvolutionOptions {
  std::vector<std::int64_t> stride, padding, dilation;
  bool transposed = false;
  std::vector<std::int64_t> output_padding;
  std::int64_t groups = 1;
};

/// at::convolution of x [B, C, pixels...] in fp32, with one to three dimensions of pixels; bias may
/// be undefined. All of it is libtorch's but the gradient of the weight where that has an open
/// slot: there it is added by oneDNN in the pass that brings it into the weight's order.
at::Tensor foreign_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const ConvolutionOptions& options);

}  // namespace accrue::kernels
