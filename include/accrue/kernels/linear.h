#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/kernels/gate_activation.h"
#include "accrue/kernels/prepared_weight.h"
#include "accrue/kernels/recompute.h"

namespace accrue::kernels {

/// y[..., N] = x[..., K] · weightᵀ + bias, differentiable.
///
/// x: fp32, fp64 or bf16. weight [N, K] and bias [N] (may be undefined) are masters in fp32 (fp64
/// for fp64 x), or frozen in the dtype of x. y has the dtype of x. The products read the weight
/// from `prepared`. Backward adds the gradients of weight and bias into their open slots inside the
/// GEMM (C += gᵀx); without a slot they are returned to autograd in the master's dtype. If the
/// weight needs no gradient there is no product, and x is not kept; neither is it with `remake_x`.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  PreparedWeight& prepared, const Remake& remake_x = {});

/// Two factors of low rank r whose product is added to a weight: scale * b · a (LoRA: Hu et al.,
/// arXiv:2106.09685).
struct LowRank {
  at::Tensor a;  ///< [r, K], a master
  at::Tensor b;  ///< [N, r], a master
  double scale = 1;
  PreparedWeight prepared_a = {}, prepared_b = {};
};

/// y = x · weightᵀ + bias + scale * (x' · aᵀ) · bᵀ, differentiable; the second product adds both.
/// `dropped` is x', which is x after its own dropout; undefined: x itself. Otherwise like `linear`:
/// the gradients of a and b are added to their open slots. If a needs a gradient, x' is kept,
/// unless `remake_dropped` can recompute it.
at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          PreparedWeight& prepared, LowRank& factors,
                          const at::Tensor& dropped = {}, const Remake& remake_dropped = {});

struct MlpOptions {
  Remake remake_x = {};        ///< recomputes x in backward, so that it is not kept
  bool result_unread = false;  ///< y is not computed (unread_result)
};

/// The feed-forward part of a transformer as one operation: y = gelu_tanh(x · w1ᵀ + b1) · w2ᵀ + b2.
/// Shapes as in `linear`: w1 [H, K], w2 [N, H]. Keeps only x and the pre-activation. GELU's tanh
/// form: Hendrycks and Gimpel, arXiv:1606.08415.
at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                    PreparedWeight& prepared1, const at::Tensor& w2, const at::Tensor& b2,
                    PreparedWeight& prepared2, const MlpOptions& options = {});

struct GatedMlpOptions {
  GateActivation activation = GateActivation::silu;
  Remake remake_x = {};        ///< recomputes x in backward, so that it is not kept
  bool result_unread = false;  ///< y is not computed (unread_result)
};

/// The gated feed-forward part as one operation (Shazeer, arXiv:2002.05202): y = (act(x · gateᵀ) *
/// (x · upᵀ)) · downᵀ, without biases. Shapes as in `linear`: gate and up [H, K], down [N, H].
/// Keeps only x and the two pre-activations. Products for gradients that are not needed are left
/// out.
at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate, PreparedWeight& prepared_gate,
                     const at::Tensor& up, PreparedWeight& prepared_up, const at::Tensor& down,
                     PreparedWeight& prepared_down, const GatedMlpOptions& options = {});

}  // namespace accrue::kernels
