#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// x[B, T, C] = token_table[ids] + position_table[0..T), differentiable in both tables.
/// ids: [B, T] int64 in [0, V). token_table: [V, C] and position_table: [P, C], fp32 or fp64;
/// frozen ones may be bf16, and x is then fp32. P is at least the length of the longest sample.
/// Without position_table (undefined) only token rows are looked up. With `spans` positions count
/// from 0 in each span, and positions outside give 0 and have no gradient. Backward adds rows into
/// the open slots and touches only rows that occur, but fills a fresh slot with zeros first. The
/// order of additions is fixed, so the bits are always the same.
at::Tensor embed_tokens(const at::Tensor& ids, const at::Tensor& token_table,
                        const at::Tensor& position_table,
                        const std::vector<SampleSpan>& spans = {});

}  // namespace accrue::kernels
