#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/kernels/gate_activation.h"

namespace accrue::kernels::elementwise {

/// Vectorised passes over whole tensors, without autograd, for use between the products of
/// GEMM-based kernels. Tensors are contiguous; dtypes fp32, bf16 or fp64 unless stated otherwise.

/// out = gelu_tanh(pre), the same shape and dtype. `out` may be `pre`.
void gelu(const at::Tensor& pre, at::Tensor& out);

/// grad_pre = grad_out * gelu_tanh'(pre), all of one shape and dtype. `grad_pre` may be `grad_out`
/// or `pre`.
void gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& grad_pre);

/// Computes grad_pre like gelu_backward() and out = gelu_tanh(pre) in one pass, all of one shape
/// and dtype. `grad_pre` may be `grad_out`, `out` may be `pre`. Returns [P, N], whose rows add up
/// to the sum of grad_pre's rows [..., N], if the pass computes it; otherwise undefined.
at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                              at::Tensor& grad_pre);

/// out = act(gate) * up, all of one shape and dtype. `out` may be `gate` or `up`.
void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up, at::Tensor& out);

/// The results of gate_backward(): gate()'s value, and the gradients of its operands.
struct GateResults {
  at::Tensor out, grad_gate, grad_up;
};

/// Fills the results, all of one shape and dtype with the operands, and possibly in their memory.
void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                   const at::Tensor& up, GateResults& results);

/// out[N] (+)= the sum of the rows of g[M, N]; out fp32 (fp64 for fp64 g). The order of additions
/// only depends on M and N, not on the number of threads.
void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate);

}  // namespace accrue::kernels::elementwise
