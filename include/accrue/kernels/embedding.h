#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// x[B, T, C] = token_table[ids] + position_table[0..T), differentiable in both tables.
/// ids [B, T] int64 in [0, V); token_table [V, C], position_table [P, C] fp32 or fp64 (frozen ones
/// also bf16, of which x is fp32), P at least the longest sample; undefined: the rows of tokens
/// alone. If there are `spans` positions count
/// from 0 in each of them, and what none covers gives 0 and no gradient. Backward adds rows into
/// the open slots: only the rows that occur are touched, except that a fresh slot is filled with
/// zeros first. The order of additions is fixed: same bits every time.
at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                        const at::Tensor& position_table,
                        const std::vector<SampleSpan>& spans = {});

}  // namespace accrue::kernels
