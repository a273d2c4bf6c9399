#pragma once

namespace accrue::models {

/// What a model's cross-entropy becomes while it trains (kernels/cross_entropy.h). Evaluation
/// (ForwardContext::training false) is of the plain cross-entropy, so that its losses can be
/// compared whatever these are.
struct LossOptions {
  double label_smoothing = 0;  ///< in [0, 1)
  double z_loss = 0;           ///< not negative
};

}  // namespace accrue::models
