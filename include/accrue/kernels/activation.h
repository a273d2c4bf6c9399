#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/kernels/gate_activation.h"

namespace accrue::kernels {

// What stands between the products of a feed-forward part whose products are operations of their
// own (kernels/linear.h has whole parts). fp32, fp64 or bf16, differentiable; they keep their
// operands.

/// gelu_tanh(x), of x's shape and dtype.
at::Tensor gelu(const at::Tensor& x);
/// act(gate) * up, both of one shape and dtype.
at::Tensor gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up);

}  // namespace accrue::kernels
