#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "accrue/kernels/prepared_weight.h"

namespace accrue::kernels {

/// Throws a usage Error unless the shapes and dtypes are those of `linear` in the public header.
void expect_linear(std::string_view operation, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias);

/// `sizes` with the last one replaced.
std::vector<std::int64_t> sizes_with(at::IntArrayRef sizes, std::int64_t width);

/// x[..., K] · weightᵀ + bias, without autograd, with `width` = N columns. `weight` is the
/// WeightOperands::forward; bias may be undefined.
at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, std::int64_t width,
                          const at::Tensor& bias);

/// The gradient of x, grad · weight, of `sizes` [..., K], for a contiguous grad [M, N]. `weight` is
/// the WeightOperands::data_gradient.
at::Tensor input_gradient(const at::Tensor& grad, const at::Tensor& weight, at::IntArrayRef sizes);

/// The part of a weight that an autograd Function receives besides the master. It is wrapped: a
/// Function treats every tensor argument as an input of the graph, as the master already is.
struct ComputeWeight {
  WeightOperands operands;
};

}  // namespace accrue::kernels
