#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/forward_context.h"
#include "accrue/kernels/attention.h"
#include "kernels/mask.h"

namespace accrue::kernels {

/// What is attended with what, besides the projections.
struct AttentionPlan {
  GroupedAttentionOptions options;  ///< with a scale
  std::vector<SampleSpan> spans;
  std::vector<DropoutMask> masks;  ///< one for each span, or none
};

/// Throws a usage Error in the name of `operation` where the options or the context do not fit
/// `rows` rows of `length` positions.
AttentionPlan attention_plan(const char* operation, const GroupedAttentionOptions& options,
                             const ForwardContext& context, std::int64_t rows, std::int64_t length,
                             std::int64_t width);

/// q [B, T, heads * W], k and v [B, T, kv_heads * W], or gradients of these: k and v have one
/// stride of positions, rows are T positions apart, and the last dimension is dense.
struct Projections {
  at::Tensor q, k, v;
};

struct Attended {
  at::Tensor out;       ///< [B, T, heads * W]
  at::Tensor log_sums;  ///< [B, heads, T] fp32 (fp64): of the exponentials of each row of scores
};

Attended attend(const AttentionPlan& plan, const Projections& of);

/// Writes the gradients of what the spans cover; `grads` have the strides of the projections.
void attend_backward(const AttentionPlan& plan, const Projections& of, const at::Tensor& log_sums,
                     const at::Tensor& grad_out, Projections& grads);

/// Memory for a tensor [B, T, ...] of which only the spans are written; zeros where spans leave
/// gaps.
at::Tensor zeros_where_uncovered(const AttentionPlan& plan, at::IntArrayRef sizes,
                                 const at::TensorOptions& options);

}  // namespace accrue::kernels
