#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels {

/// Stride of a square kernel, and the zero padding of its input.
struct ConvolutionSteps {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// Convolves x [B, C, H, W] with weight [O, C, k, k], both fp32, like at::conv2d, but rounds the
/// operands of products to `operands` (bf16, or fp16 if ATen's operators compute): x and the
/// weight, and in backward the incoming gradient. Products are summed in fp32. The result, in
/// channels_last layout, and both gradients are fp32. It keeps x itself for backward. First-order
/// gradients only.
at::Tensor rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const ConvolutionSteps& steps, at::ScalarType operands);
/// Makes only the graph of the result, without values; gradients have the same bits.
at::Tensor unread_rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                                      const ConvolutionSteps& steps, at::ScalarType operands);

}  // namespace accrue::kernels
