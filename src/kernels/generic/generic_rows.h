#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/forward_context.h"
#include "kernels/mask.h"
#include "kernels/rows/elementwise.h"
#include "kernels/rows/token_gradient.h"

// Passes over rows by ATen's operators, without autograd, on any device. Contracts are those of the
// vectorised passes of the same name in kernels/rows.
namespace accrue::kernels::generic {

void gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up, at::Tensor& out);
void gate_backward(GateActivation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                   const at::Tensor& up, elementwise::GateResults& results);

/// One sample's rows of x as a matrix [rows, C], from row `begin` on.
struct MaskedRows {
  std::int64_t begin, rows;
  DropoutMask mask;
};
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
void add_rows(const Parts& parts, const at::Tensor& ids, const at::Tensor& grad, at::Tensor& table);
/// table[t] (+)= the sum of grad at position t of every part, t < the longest part.
void add_positions(const Parts& parts, const at::Tensor& grad, at::Tensor& table, bool accumulate);

}  // namespace accrue::kernels::generic
