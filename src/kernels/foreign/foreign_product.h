#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// The leaf that `factor` is, or that it is the transpose of, as a graph that is recorded has it,
/// or where none is by the memory it shows; undefined where it is something else.
at::Tensor transposed_or_same_parameter(const at::Tensor& factor);

/// x [M, K] · factor [K, N] + bias [N] (none where undefined), of one dtype; `factor` as above.
/// Backward puts the parameter's and the bias's gradients into their open slots.
at::Tensor foreign_product(const at::Tensor& x, const at::Tensor& factor, const at::Tensor& bias);

}  // namespace accrue::kernels
