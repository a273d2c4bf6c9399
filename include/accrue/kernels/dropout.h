#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// Inverted dropout whose mask does not depend on how the batch was split, ordered or packed,
/// differentiable.
///
/// x: [B, T, C] (or [B, C]), fp32, fp64 or bf16. Row b belongs to context.sample_ids[b], or the
/// context's spans assign positions to samples; positions outside all spans become 0. The
/// element (t, c) of sample s, t counted within the sample, is kept if Philox4x32-10 keyed by
/// (seed, window, s, site, t, c) gives a uniform value of at least `probability`. Backward draws
/// the mask again. Returns x when not training or if p = 0. Throws an Error unless 0 <= probability
/// < 1 and there is one sample id per row, or spans that fit.
at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                   std::int64_t site);

/// Computes x + dropout(y) in one pass, differentiable. y is like dropout's x; x has its sizes, and
/// its dtype, or fp32 if y is bf16. The sum has x's dtype, and the kept part of y is not rounded
/// before the addition. If context.result_unread, nothing is computed (unread_result).
at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                       const ForwardContext& context, std::int64_t site);

}  // namespace accrue::kernels
