#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// These write a layer's parameter gradient to the open slot, and then return an undefined tensor;
/// without an open slot they return a new tensor of the parameter's dtype for autograd.

/// gradᵀ · x, for weight [N, K], grad [M, N] and x [M, K].
at::Tensor weight_gradient(const at::Tensor& weight, const at::Tensor& grad, const at::Tensor& x);
/// The sum of the rows of a contiguous grad [M, N], for a parameter of N elements.
at::Tensor row_sum_gradient(const at::Tensor& parameter, const at::Tensor& grad);

/// x [..., K] as a matrix [M, K].
at::Tensor as_matrix(const at::Tensor& x);

}  // namespace accrue::kernels
