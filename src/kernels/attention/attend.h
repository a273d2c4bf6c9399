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

/// Throws a usage Error in the name of `operation` if the options or the context do not fit
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
  at::Tensor out;  ///< [B, T, heads * W]
  /// What backward is to be given back: [B, heads, T] fp32 (fp64), the logarithms of the sums of
  /// each row's exponentials; or what ATen's kernels keep, the result among it.
  std::vector<at::Tensor> kept;
};

/// What to save for backward: the inputs, and behind them what is kept.
std::vector<at::Tensor> with_kept(std::vector<at::Tensor> inputs, const Attended& attended);

Attended attend(const AttentionPlan& plan, const Projections& of);

/// Writes the gradients of what the spans cover; `grads` have the strides of the projections.
void attend_backward(const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads);

/// Memory for a tensor [B, T, ...] of which only the spans are written; zeros where spans leave
/// gaps.
at::Tensor zeros_where_uncovered(const AttentionPlan& plan, at::IntArrayRef sizes,
                                 const at::TensorOptions& options);

}  // namespace accrue::kernels
