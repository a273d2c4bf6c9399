#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "accrue/kernels/attention.h"
#include "kernels/attention_reference.h"
#include "support/reference_mask.h"

namespace accrue::testing {

/// q, k and v of grouped attention, or gradients of these.
struct GroupedInput {
  at::Tensor q, k, v;

  std::vector<at::Tensor> all() const { return {q, k, v}; }
  template <class Body>
  GroupedInput each(Body body) const {
    return {body(q), body(k), body(v)};
  }
};

inline GroupedInput grouped_projections(std::int64_t batch, std::int64_t length,
                                        const kernels::GroupedAttentionOptions& options,
                                        std::int64_t width, at::ScalarType dtype,
                                        double scale = 1) {
  at::manual_seed(3);
  const auto draw = [&](std::int64_t heads) {
    return (at::randn({batch, length, heads * width}, at::kDouble) * scale).to(dtype);
  };
  const at::Tensor q = draw(options.heads), k = draw(options.kv_heads);
  return {q, k, draw(options.kv_heads)};
}

/// Grouped attention with full matrices, in double: keys and values repeated for each head of
/// queries, hidden and dropped elements as [B, heads, T, T].
inline at::Tensor grouped_written_out(const GroupedInput& input,
                                      const kernels::GroupedAttentionOptions& options,
                                      const ForwardContext& context) {
  const std::int64_t batch = input.q.size(0), length = input.q.size(1), heads = options.heads,
                     group = heads / options.kv_heads, width = input.q.size(2) / heads;
  const auto split = [&](const at::Tensor& x, std::int64_t of) {
    return x.view({batch, length, of, width}).transpose(1, 2);
  };
  const at::Tensor q = split(input.q, heads),
                   k = split(input.k, options.kv_heads).repeat_interleave(group, 1),
                   v = split(input.v, options.kv_heads).repeat_interleave(group, 1);
  at::Tensor hidden = at::ones({batch, heads, length, length}, at::kBool);
  at::Tensor factor = at::ones({batch, heads, length, length}, at::kDouble);
  at::Tensor covered = at::zeros({batch, length, 1}, at::kDouble);
  const ReferenceMask mask(options.dropout, context, options.site);
  for (const SampleSpan& span : spans_of(context, batch, length)) {
    const std::int64_t size = span.end - span.begin;
    covered[span.row].narrow(0, span.begin, size).fill_(1);
    const at::Tensor distance =
        at::arange(size).unsqueeze(1) - at::arange(size).unsqueeze(0);  // query - key
    at::Tensor unseen = at::zeros({size, size}, at::kBool);
    if (options.causal) unseen = unseen | (distance < 0);
    if (options.window > 0) unseen = unseen | (distance >= options.window);
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto block = [&](const at::Tensor& of) {
        return of[span.row][head].narrow(0, span.begin, size).narrow(1, span.begin, size);
      };
      block(hidden).copy_(unseen);
      if (context.training) block(factor).copy_(mask.of_head(span.sample_id, head, size, size));
    }
  }
  // Padding sees everything, so that nothing is undefined, and is removed afterwards.
  hidden = hidden.logical_and(covered.view({batch, 1, length, 1}) != 0);
  const double scale =
      options.scale == 0 ? 1 / std::sqrt(static_cast<double>(width)) : options.scale;
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;
  if (options.soft_cap != 0) scores = at::tanh(scores / options.soft_cap) * options.soft_cap;
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return covered * at::matmul(at::softmax(scores, -1) * factor, v)
                       .transpose(1, 2)
                       .reshape({batch, length, heads * width});
}

struct GroupedResult {
  at::Tensor out;
  GroupedInput grads;
};

template <class Attention>
GroupedResult run_grouped(const GroupedInput& input, const at::Tensor& grad, Attention attention) {
  const GroupedInput leaves =
      input.each([](const at::Tensor& x) { return x.detach().clone().requires_grad_(true); });
  const at::Tensor out = attention(leaves);
  out.backward(grad.to(out.scalar_type()));
  return {out.detach(), leaves.each([](const at::Tensor& leaf) { return leaf.grad(); })};
}

inline GroupedResult our_grouped(const GroupedInput& input, const at::Tensor& grad,
                                 const kernels::GroupedAttentionOptions& options,
                                 const ForwardContext& context) {
  return run_grouped(input, grad, [&](const GroupedInput& leaves) {
    return kernels::grouped_attention(leaves.q, leaves.k, leaves.v, options, context);
  });
}

inline GroupedResult grouped_reference(const GroupedInput& input, const at::Tensor& grad,
                                       const kernels::GroupedAttentionOptions& options,
                                       const ForwardContext& context) {
  const GroupedInput wide = input.each([](const at::Tensor& x) { return x.to(at::kDouble); });
  return run_grouped(wide, grad, [&](const GroupedInput& leaves) {
    return grouped_written_out(leaves, options, context);
  });
}

}  // namespace accrue::testing
