#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// x[B, T, C] = token_table[ids] + position_table[0..T), differentiable in both tables.
/// ids [B, T] int64 in [0, V); token_table [V, C], position_table [P >= T, C] fp32 or fp64.
/// Backward adds rows into the open slots: only the rows that occur are touched, except that a
/// fresh slot is filled with zeros first. The order of additions is fixed: same bits every time.
at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                        const at::Tensor& position_table);

}  // namespace accrue::kernels
