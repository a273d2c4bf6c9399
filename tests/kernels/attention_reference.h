#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "accrue/kernels/attention.h"
#include "support/reference_mask.h"

namespace accrue::testing {

inline at::Tensor packed_projections(std::int64_t batch, std::int64_t length, std::int64_t channels,
                                     at::ScalarType dtype, std::uint64_t seed = 1,
                                     double scale = 1) {
  at::manual_seed(seed);
  return (at::randn({batch, length, 3 * channels}, at::kDouble) * scale).to(dtype);
}

/// The context's spans, or one per row.
inline std::vector<SampleSpan> spans_of(const ForwardContext& context, std::int64_t rows,
                                        std::int64_t length) {
  if (!context.spans.empty()) return context.spans;
  std::vector<SampleSpan> spans;
  for (std::int64_t row = 0; row < rows; ++row)
    spans.push_back(
        {context.sample_ids.empty() ? row : context.sample_ids[static_cast<std::size_t>(row)], row,
         0, length});
  return spans;
}

/// Attention with full matrices, in double: visible keys and dropped elements are [B, heads, T,
/// T].
inline at::Tensor written_out(const at::Tensor& qkv, std::int64_t heads,
                              const kernels::AttentionOptions& options,
                              const ForwardContext& context) {
  const std::int64_t batch = qkv.size(0), length = qkv.size(1), channels = qkv.size(2) / 3;
  const at::Tensor parts =
      qkv.view({batch, length, 3, heads, channels / heads}).permute({2, 0, 3, 1, 4});
  at::Tensor hidden = at::ones({batch, heads, length, length}, at::kBool);
  at::Tensor factor = at::ones({batch, heads, length, length}, at::kDouble);
  at::Tensor covered = at::zeros({batch, length, 1}, at::kDouble);
  const ReferenceMask mask(options.dropout, context, options.site);
  for (const SampleSpan& span : spans_of(context, batch, length)) {
    const std::int64_t size = span.end - span.begin;
    covered[span.row].narrow(0, span.begin, size).fill_(1);
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto block = [&](const at::Tensor& of) {
        return of[span.row][head].narrow(0, span.begin, size).narrow(1, span.begin, size);
      };
      block(hidden).copy_(options.causal ? at::ones({size, size}, at::kBool).triu(1)
                                         : at::zeros({size, size}, at::kBool));
      if (context.training) block(factor).copy_(mask.of_head(span.sample_id, head, size, size));
    }
  }
  // Padding sees everything, so that nothing is undefined, and is removed afterwards.
  hidden = hidden.logical_and(covered.view({batch, 1, length, 1}) != 0);
  const at::Tensor scores = (at::matmul(parts[0], parts[1].transpose(-2, -1)) /
                             std::sqrt(static_cast<double>(channels / heads)))
                                .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return covered * at::matmul(at::softmax(scores, -1) * factor, parts[2])
                       .transpose(1, 2)
                       .reshape({batch, length, channels});
}

struct AttentionResult {
  at::Tensor out, grad;
};

template <class Attention>
AttentionResult run_attention(const at::Tensor& qkv, const at::Tensor& grad, Attention attention) {
  const at::Tensor leaf = qkv.detach().clone().requires_grad_(true);
  const at::Tensor out = attention(leaf);
  out.backward(grad.to(out.scalar_type()));
  return {out.detach(), leaf.grad()};
}

inline AttentionResult ours(const at::Tensor& qkv, const at::Tensor& grad, std::int64_t heads,
                            const kernels::AttentionOptions& options,
                            const ForwardContext& context) {
  return run_attention(qkv, grad, [&](const at::Tensor& leaf) {
    return kernels::attention(leaf, heads, options, context);
  });
}

inline AttentionResult reference(const at::Tensor& qkv, const at::Tensor& grad, std::int64_t heads,
                                 const kernels::AttentionOptions& options,
                                 const ForwardContext& context) {
  return run_attention(qkv.to(at::kDouble), grad, [&](const at::Tensor& leaf) {
    return written_out(leaf, heads, options, context);
  });
}

}  // namespace accrue::testing
