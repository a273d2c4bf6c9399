#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/forward_context.h"
#include "kernels/backend.h"
#include "kernels/rows/dropout_plan.h"
#include "kernels/rows/elementwise.h"
#include "kernels/rows/token_gradient.h"

// Passes over rows by ATen's operators, without autograd, on any device. Contracts are those of
// kernels/backend.h. A pass that takes a back end has parts for which a device may have its own.
namespace accrue::kernels::generic {

void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up, at::Tensor& out);
void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                   const at::Tensor& up, elementwise::GateResults& results);

/// `added` (none if undefined) + x [B, T, C] times the masks of its parts, in `dtype`; positions
/// outside all parts are dropped.
at::Tensor drop(const at::Tensor& x, const std::vector<MaskedRows>& parts, at::ScalarType dtype,
                const at::Tensor& added);

/// x [B, T, heads * W] rotated by its positions (accrue/kernels/rotary.h), or back. `positions` is
/// -1 outside all samples.
at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                  const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                  bool backwards);

/// Rows of the tables, in fp32 or fp64. `positions` may be undefined, `ids` in host memory.
at::Tensor look_up(const Parts& parts, const at::Tensor& ids, const at::Tensor& tokens,
                   const at::Tensor& positions);
/// table[ids[r]] += grad[r] for every row of the parts, with the same bits every time.
void add_rows(const Backend& backend, const Parts& parts, const at::Tensor& ids,
              const at::Tensor& grad, at::Tensor& table);
/// table[t] (+)= the sum of grad at position t of every part, t < the longest part.
void add_positions(const Backend& backend, const Parts& parts, const at::Tensor& grad,
                   at::Tensor& table, bool accumulate);
/// sums[index[r]] += values[r], with the same bits every time.
void add_at(at::Tensor& sums, const at::Tensor& index, const at::Tensor& values);

}  // namespace accrue::kernels::generic
