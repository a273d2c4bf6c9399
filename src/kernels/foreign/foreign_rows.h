#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// at::layer_norm over the last dimension; x in fp32 or fp64, weight and bias of its dtype.
/// Backward writes their gradients to their open slots.
at::Tensor foreign_layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              double eps);

/// at::gelu in its tanh form.
at::Tensor foreign_gelu(const at::Tensor& x);

}  // namespace accrue::kernels
