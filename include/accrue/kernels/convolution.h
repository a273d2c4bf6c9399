#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels {

/// A square kernel's steps, and the zeros around what it reads.
struct ConvolutionSteps {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// Convolves x [B, C, H, W] with weight [O, C, k, k], both fp32, as at::conv2d does it, but with
/// what is multiplied rounded to `operands` (bf16, or fp16 where ATen's operators compute): x and
/// the weight, and in backward the gradient that arrives. Products are summed in fp32, and so is
/// what comes out: the result, in which channels lie next to each other (channels_last), and both
/// gradients. It keeps x itself. First order only.
at::Tensor rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                               const ConvolutionSteps& steps, at::ScalarType operands);
/// Makes only the graph of the result, which nobody reads; gradients have the same bits.
at::Tensor unread_rounded_convolution(const at::Tensor& x, const at::Tensor& weight,
                                      const ConvolutionSteps& steps, at::ScalarType operands);

}  // namespace accrue::kernels
