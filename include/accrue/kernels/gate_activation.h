#pragma once

namespace accrue::kernels {

/// The activation of the gate in a gated feed-forward part: silu(x) = x * sigmoid(x) (SwiGLU), or
/// the tanh form of GELU (GeGLU).
enum class GateActivation { silu, gelu_tanh };

}  // namespace accrue::kernels
