#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accrue/core/forward_context.h"
#include "accrue/kernels/attention.h"
#include "kernels/mask.h"

namespace accrue::kernels {

/// The options of an attention, without its projections.
struct AttentionPlan {
  GroupedAttentionOptions options;  ///< with a scale
  std::vector<SampleSpan> spans;
  std::vector<DropoutMask> masks;  ///< one for each span, or none
};

/// Throws a usage Error in the name of `operation` if the options or the context do not fit `rows`
/// rows of `length` positions.
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
  /// Tensors for backward: [B, heads, T] fp32 (fp64), the logarithms of the sums of each row's
  /// exponentials; or the tensors that ATen's kernels keep, including the result.
  std::vector<at::Tensor> kept;
};

/// The tensors to save for backward: the inputs, followed by those in `attended`.
std::vector<at::Tensor> with_kept(std::vector<at::Tensor> inputs, const Attended& attended);

Attended attend(const AttentionPlan& plan, const Projections& of);

/// Writes the gradients of positions in the spans; `grads` have the strides of the projections.
void attend_backward(const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads);

/// Memory for a tensor [B, T, ...] of which only the spans are written; zeros if spans leave
/// gaps.
at::Tensor zeros_where_uncovered(const AttentionPlan& plan, at::IntArrayRef sizes,
                                 const at::TensorOptions& options);

}  // namespace accrue::kernels
