#pragma once

#include <cstddef>

#include "element.h"

namespace accrue::kernels::rows {

/// Single-threaded vectorised passes behind elementwise.h, compiled once per instruction set and
/// chosen when the program runs. Pointers may be unaligned.

/// out[0, size) = gelu_tanh(pre). In place allowed.
void gelu(Element type, const void* pre, void* out, std::size_t size);

/// grad_pre = grad_out * gelu_tanh'(pre). In place allowed.
void gelu_backward(Element type, const void* grad_out, const void* pre, void* grad_pre,
                   std::size_t size);

/// sums[j] += sum over i of g[i * stride + j], i < rows, j < columns; sums fp32 (fp64 for fp64 g).
void add_columns(Element type, const void* g, std::size_t rows, std::size_t stride,
                 std::size_t columns, void* sums);

/// Of cross-entropy (accrue/kernels/cross_entropy.h).
struct CrossEntropyTerms {
  double label_smoothing = 0, z_loss = 0;
};

/// The loss of one row of fp32 or fp64 logits.
double cross_entropy_row(Element type, const void* logits, std::size_t size, std::size_t target,
                         const CrossEntropyTerms& terms);

/// As above, and grad = factor * the loss's gradient, in `grad_type` (the logits' or bf16). `grad`
/// may begin where `logits` does; `logits` is overwritten.
double cross_entropy_row_with_grad(Element type, void* logits, std::size_t size, std::size_t target,
                                   const CrossEntropyTerms& terms, double factor, Element grad_type,
                                   void* grad);

}  // namespace accrue::kernels::rows
