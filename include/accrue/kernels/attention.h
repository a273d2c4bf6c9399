#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

struct AttentionOptions {
  bool causal = true;     ///< a query sees no later keys
  double dropout = 0;     ///< of the attention probabilities while training, in [0, 1)
  std::int64_t site = 0;  ///< what tells this call's dropout masks from those of others
};

/// Self-attention on packed projections, differentiable.
///
/// qkv [B, T, 3*C] (q, k, v side by side, each [heads, C/heads]), fp32, fp64 or bf16; read in
/// place, no layout copies. Returns [B, T, C] in qkv's dtype. Softmax in fp32 (fp64 for fp64),
/// scaled by 1/sqrt(C/heads). Works by blocks of queries with a log-sum-exp a row kept for
/// backward, so memory grows linearly with T (Dao et al., arXiv:2205.14135; Rabe and Staats,
/// arXiv:2112.05682).
///
/// If the context has spans a query sees the keys of its own sample only, and the work is that
/// of the samples apart, to the bit; what no span covers gives 0 and has gradient 0.
///
/// Dropout scales what it keeps by 1 / (1 - p). The probability of key k for query t (positions
/// within the sample) is kept where Philox4x32-10 keyed by (seed, window, sample id, site, head, t,
/// k) gives a uniform value of at least p. Backward draws the mask again. Throws a usage Error
/// if p is out of range, the spans do not fit, or dropout lacks a sample id for each row.
at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                     const ForwardContext& context);

struct GroupedAttentionOptions {
  std::int64_t heads = 1;     ///< of queries
  std::int64_t kv_heads = 1;  ///< of keys and values: a divisor of `heads`
  bool causal = true;         ///< a query sees no later keys
  /// The most keys a query sees, the nearest ones, its own among them; 0: all. Of causal attention
  /// only.
  std::int64_t window = 0;
  double soft_cap = 0;    ///< scores become soft_cap * tanh(score / soft_cap); 0: they stay
  double scale = 0;       ///< of the scores; 0: 1 / sqrt(width of a head)
  double dropout = 0;     ///< of the attention probabilities while training, in [0, 1)
  std::int64_t site = 0;  ///< what tells this call's dropout masks from those of others
};

/// Self-attention whose heads of queries share heads of keys and values in groups of neighbours
/// (Ainslie et al., arXiv:2305.13245), differentiable: head h of queries attends with head
/// h / (heads / kv_heads) of keys and values.
///
/// q [B, T, heads * W], k and v [B, T, kv_heads * W], all of one dtype, fp32, fp64 or bf16. Returns
/// [B, T, heads * W] in that dtype. Precision, memory, spans and dropout, by head of queries, as in
/// attention(). A window skips the work on keys beyond it (sliding window: Beltagy et al.,
/// arXiv:2004.05150). The gradients of k and v are summed over their group in fp32 (fp64 for fp64)
/// and rounded once, in an order that does not depend on the number of threads. Throws a usage
/// Error if sizes, dtypes or options do not fit.
at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options, const ForwardContext& context);

}  // namespace accrue::kernels
