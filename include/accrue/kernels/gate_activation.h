#pragma once

namespace accrue::kernels {

/// What a gated feed-forward part's gate goes through: silu(x) = x * sigmoid(x) (SwiGLU), or GELU's
/// tanh form (GeGLU).
enum class GateActivation { silu, gelu_tanh };

}  // namespace accrue::kernels
