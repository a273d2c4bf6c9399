#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "row_kernels.h"

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

struct CrossEntropyRows {
  const std::int64_t* targets = nullptr;  ///< [R], each in [0, V) or `ignored`: the caller checked
  const float* row_weights = nullptr;     ///< [R], or null: 1
  std::int64_t ignored = -100;
  rows::CrossEntropyTerms terms = {};
  double gradient_scale = 1;
};

/// Cross-entropy (accrue/kernels/cross_entropy.h) of logits[R, V], fp32 or fp64: the sum over the
/// rows that are not ignored and have a weight, in double. `logits` is scratch: its contents are
/// unspecified after. Where `grad` is given it becomes gradient_scale times that of the sum (zero
/// in ignored rows): [R, V] in the logits' dtype or bf16, its rows contiguous. It may be `logits`,
/// or a view of bf16 elements in which each row begins where the logits' does.
double cross_entropy_rows(at::Tensor& logits, const CrossEntropyRows& labels,
                          at::Tensor* grad = nullptr);

}  // namespace accrue::kernels::elementwise
