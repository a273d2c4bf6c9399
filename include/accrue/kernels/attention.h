#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// Causal self-attention on packed projections, differentiable.
///
/// qkv [B, T, 3*C] (q, k, v side by side, each [heads, C/heads]), fp32, fp64 or bf16; read in
/// place, no layout copies. Returns [B, T, C] in qkv's dtype. Softmax in fp32 (fp64 for fp64),
/// scaled by 1/sqrt(C/heads). Works by blocks of queries with an log-sum-exp a row kept for
/// backward, so memory grows linearly with T (Dao et al., arXiv:2205.14135; Rabe and Staats,
/// arXiv:2112.05682).
at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads);

}  // namespace accrue::kernels
