#pragma once

#include "accrue/models/loss_options.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// Cross-entropy of logits [..., K] against micro.targets [...] (-100: ignored), weighted by
/// micro.weights if it is defined (kernels/cross_entropy.h). Throws a usage Error if the shapes do
/// not fit.
Loss class_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro);

/// Cross-entropy of logits [B, K, ...] against micro.targets [B, ...], the class of each pixel
/// (-100: ignored), otherwise like class_cross_entropy(): the sum over pixels and their weight.
Loss pixel_cross_entropy(const at::Tensor& logits, const batch::MicroBatch& micro);

/// The loss of a model whose output is logits: pixel_cross_entropy() if the inputs are images [B,
/// C, H, W] and the targets [B, H, W], and otherwise class_cross_entropy(). `options` apply in
/// training. It also reports the accuracy, per pixel if the loss is per pixel.
LossHead class_cross_entropy_head(const LossOptions& options = {});

}  // namespace accrue::models
