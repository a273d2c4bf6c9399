#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// Where a layer's parameter gradients go: into the open slot (then the result is undefined), else
/// into a new tensor of the parameter's dtype for autograd.

/// gradᵀ · x, of weight [N, K], grad [M, N], x [M, K].
at::Tensor weight_gradient(const at::Tensor& weight, const at::Tensor& grad, const at::Tensor& x);
/// The sum of the rows of grad [M, N], contiguous; of a parameter of N elements.
at::Tensor row_sum_gradient(const at::Tensor& parameter, const at::Tensor& grad);

/// x [..., K] as a matrix [M, K].
at::Tensor as_matrix(const at::Tensor& x);

}  // namespace accrue::kernels
