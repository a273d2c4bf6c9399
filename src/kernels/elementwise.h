#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels::elementwise {

/// Vectorised passes over whole tensors, without autograd: what the GEMM-based kernels need between
/// their products. Tensors are contiguous; dtypes fp32, bf16 or fp64 unless said otherwise.

/// out = gelu_tanh(pre), the same shape and dtype. `out` may be `pre`.
void gelu(const at::Tensor& pre, at::Tensor& out);

/// grad_pre = grad_out * gelu_tanh'(pre), all of one shape and dtype. `grad_pre` may be `grad_out`
/// or `pre`.
void gelu_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& grad_pre);

/// out[N] (+)= the sum of the rows of g[M, N]; out fp32 (fp64 for fp64 g). The order of additions
/// depends on M and N alone, never on the number of threads.
void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate);

/// Cross-entropy of logits[R, V] (fp32 or fp64) against targets[R], each in [0, V) or `ignored` as
/// the caller has checked: the sum of -log softmax(row)[target] over the rows that are not ignored,
/// in double, each times its row_weights[R] where they are given; weight 0 is ignored too. Where
/// `grad` is given it becomes that of the sum (zero in ignored rows): [R, V] in the logits' dtype
/// or bf16; it may be `logits` itself. `logits` is scratch: its contents are unspecified after.
double cross_entropy_rows(at::Tensor& logits, const std::int64_t* targets, std::int64_t ignored,
                          at::Tensor* grad, const float* row_weights = nullptr);

}  // namespace accrue::kernels::elementwise
