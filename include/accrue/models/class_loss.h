#pragma once

#include "accrue/models/loss_options.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// Cross-entropy of logits [..., K] against micro.targets [...] (-100: ignored), each weighted by
/// micro.weights where there are any (kernels/cross_entropy.h). Throws a usage Error where the
/// shapes do not fit.
Loss class_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro);

/// class_cross_entropy() as the one loss of a model whose output is logits; `options` hold in
/// training.
LossHead class_cross_entropy_head(const LossOptions& options = {});

}  // namespace accrue::models
