#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

struct AttentionOptions {
  bool causal = true;     ///< a query does not see later keys
  double dropout = 0;     ///< of the attention probabilities while training, in [0, 1)
  std::int64_t site = 0;  ///< distinguishes the dropout masks of this call from others
};

/// Self-attention on packed projections, differentiable.
///
/// qkv: [B, T, 3*C] (q, k, v side by side, each [heads, C/heads]), fp32, fp64 or bf16, read in
/// place without copies. Returns [B, T, C] in the dtype of qkv. Softmax in fp32 (fp64 for fp64),
/// scaled by 1/sqrt(C/heads). Works in blocks of queries and keeps one log-sum-exp per row for
/// backward, so memory grows linearly with T (Dao et al., arXiv:2205.14135; Rabe and Staats,
/// arXiv:2112.05682).
///
/// If the context has spans, a query sees only keys of its own sample, and the result has the bits
/// of separate samples. Positions outside all spans give 0 and have gradient 0.
///
/// Dropout scales kept values by 1 / (1 - p). The probability of key k for query t (positions
/// within the sample) is kept if Philox4x32-10 keyed by (seed, window, sample id, site, head, t, k)
/// gives a uniform value of at least p. Backward draws the mask again. Throws a usage Error if p is
/// out of range, the spans do not fit, or dropout lacks a sample id for a row.
at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                     const ForwardContext& context);

struct GroupedAttentionOptions {
  std::int64_t heads = 1;     ///< of queries
  std::int64_t kv_heads = 1;  ///< of keys and values: a divisor of `heads`
  bool causal = true;         ///< a query does not see later keys
  /// The number of nearest keys that a query sees, including its own; 0: all. Only for causal
  /// attention.
  std::int64_t window = 0;
  double soft_cap = 0;    ///< scores become soft_cap * tanh(score / soft_cap); 0: unchanged
  double scale = 0;       ///< of the scores; 0: 1 / sqrt(width of a head)
  double dropout = 0;     ///< of the attention probabilities while training, in [0, 1)
  std::int64_t site = 0;  ///< distinguishes the dropout masks of this call from others
};

/// Self-attention in which groups of adjacent query heads share a head of keys and values (Ainslie
/// et al., arXiv:2305.13245), differentiable: query head h attends with head h / (heads / kv_heads)
/// of keys and values.
///
/// q: [B, T, heads * W], k and v: [B, T, kv_heads * W], all of one dtype: fp32, fp64 or bf16.
/// Returns [B, T, heads * W] in that dtype. Precision, memory, spans and dropout are those of
/// attention(), per query head. A window skips the work on keys outside it (sliding window: Beltagy
/// et al., arXiv:2004.05150). The gradients of k and v are summed over their group in fp32 (fp64
/// for fp64) and rounded once, in an order independent of the number of threads. Throws a usage
/// Error if sizes, dtypes or options do not fit.
at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options, const ForwardContext& context);

}  // namespace accrue::kernels
