#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/attention/attend.h"

// Sums and copies that a GPU runs faster in separate kernels than by ATen's operators, with the
// same bits every time. Each has a function that returns whether it supports a case.
namespace accrue::kernels::compiled {

/// out [N] fp32 (+)= the sum of the rows of g [M, N], fp32, bf16 or fp16.
bool sums_columns(const at::Tensor& g, const at::Tensor& out);
void column_sum(const at::Tensor& g, at::Tensor& out, bool accumulate);

/// gelu_with_backward() of kernels/rows/elementwise.h, with the sums of grad_pre's columns.
bool makes_gelu(const at::Tensor& pre);
at::Tensor gelu_with_backward(const at::Tensor& grad_out, const at::Tensor& pre, at::Tensor& out,
                              at::Tensor& grad_pre);

/// table[index[r]] += grad[r] for each of the rows, fp32.
bool adds_rows(const at::Tensor& grad, const at::Tensor& table);
void add_rows(const at::Tensor& index, const at::Tensor& grad, at::Tensor& table);

/// Gradients of heads [B, heads, T, W] into those of packed projections.
bool packs_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const Projections& to);
void pack_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Projections& to);

}  // namespace accrue::kernels::compiled
