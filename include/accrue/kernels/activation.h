#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/kernels/gate_activation.h"

namespace accrue::kernels {

// Activations between the products of a feed-forward part, if the products are separate operations
// (kernels/linear.h has whole feed-forward parts). fp32, fp64 or bf16, differentiable; they keep
// their operands for backward.

/// Returns gelu_tanh(x), in the shape and dtype of x.
at::Tensor gelu(const at::Tensor& x);
/// Returns act(gate) * up; both operands have the same shape and dtype.
at::Tensor gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up);

}  // namespace accrue::kernels
