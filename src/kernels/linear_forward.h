#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace accrue::kernels {

/// Throws a usage Error unless the shapes and dtypes are those of `linear` in the public header.
void expect_linear(std::string_view operation, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias);

/// x[..., K] · weightᵀ + bias, without autograd; weight in x's dtype, bias may be undefined.
at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// x's gradient: grad · weight of grad [M, N] contiguous; `y`: sizes [..., N] of the result.
at::Tensor input_gradient(const at::Tensor& grad, const at::Tensor& weight, at::IntArrayRef y);

/// A weight in the dtype of the GEMM. Wrapped, because an autograd Function treats every tensor
/// argument as an input of the graph; the master already is one.
struct ComputeWeight {
  at::Tensor tensor;
};

}  // namespace accrue::kernels
