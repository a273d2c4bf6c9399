#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/core/forward_context.h"
#include "accrue/kernels/attention.h"

namespace accrue::kernels {

/// at::scaled_dot_product_attention: q [B, heads, T, W], k and v [B, kv_heads, T, W] of one dtype,
/// fp32, fp64 or bf16. Parts of one packed projection are read in place. With dropout the context
/// must have a sample id for each row, and there are no second derivatives.
at::Tensor foreign_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options, const ForwardContext& context);

/// [B, heads, T, W] as [B, T, heads * W]; a view if the heads are side by side.
at::Tensor as_positions(const at::Tensor& heads);
/// The inverse, for dense positions.
at::Tensor as_heads(const at::Tensor& positions, std::int64_t heads);

}  // namespace accrue::kernels
