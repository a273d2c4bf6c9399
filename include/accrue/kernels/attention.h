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
/// Where the context has spans a query sees the keys of its own sample only, and the work is that
/// of the samples apart, to the bit; what no span covers gives 0 and has gradient 0.
///
/// Dropout scales what it keeps by 1 / (1 - p). The probability of key k for query t (positions
/// within the sample) is kept where Philox4x32-10 keyed by (seed, window, sample id, site, head, t,
/// k) gives a uniform value of at least p. Backward draws the mask again. Throws a usage Error
/// where p is out of range, the spans do not fit, or dropout lacks a sample id for each row.
at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                     const ForwardContext& context);

}  // namespace accrue::kernels
