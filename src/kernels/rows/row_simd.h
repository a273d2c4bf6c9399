#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::rows {

/// Single-threaded vectorised passes behind elementwise.h, compiled once per instruction set and
/// selected at run time. Pointers may be unaligned.

/// out[0, size) = gelu_tanh(pre). In place allowed.
void gelu(Element type, const void* pre, void* out, std::size_t size);

/// grad_pre = grad_out * gelu_tanh'(pre). In place allowed.
void gelu_backward(Element type, const void* grad_out, const void* pre, void* grad_pre,
                   std::size_t size);

/// Computes grad_pre like gelu_backward() and out = gelu_tanh(pre) with one exponential. `out` may
/// be `pre`.
void gelu_with_backward(Element type, const void* grad_out, const void* pre, void* out,
                        void* grad_pre, std::size_t size);

/// sums[j] += sum over i of g[i * stride + j], i < rows, j < columns; sums fp32 (fp64 for fp64 g).
void add_columns(Element type, const void* g, std::size_t rows, std::size_t stride,
                 std::size_t columns, void* sums);

}  // namespace accrue::kernels::rows
