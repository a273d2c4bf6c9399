#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accrue::kernels {

/// The arguments of at::convolution besides tensors.
struct ConvolutionOptions {
  std::vector<std::int64_t> stride, padding, dilation;
  bool transposed = false;
  std::vector<std::int64_t> output_padding;
  std::int64_t groups = 1;
};

/// at::convolution of x [B, C, pixels...] in fp32, with one to three spatial dimensions; bias may
/// be undefined. libtorch computes everything except the gradient of a weight with an open slot:
/// oneDNN adds it there in the pass that converts it to the weight's layout.
at::Tensor foreign_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const ConvolutionOptions& options);

}  // namespace accrue::kernels
