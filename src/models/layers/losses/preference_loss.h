#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/models/trainable.h"
#include "models/layers/losses/token_head.h"

namespace accrue::models {

/// The log-probability of each sequence of `micro`, summed over its labels that count: fp64 [S],
/// differentiable. `hidden` is the output of the model's last segment.
at::Tensor sequence_log_probabilities(TokenHead& head, const at::Tensor& hidden,
                                      const batch::MicroBatch& micro,
                                      const ForwardContext& context);

/// LanguageModel::sequence_log_probabilities of a `model` whose head is `head`.
at::Tensor sequence_log_probabilities(Trainable& model, TokenHead& head,
                                      const batch::MicroBatch& micro);

/// The loss of pairs in head->options, "dpo" or "orpo"; its weight is the number of pairs, or the
/// sum of their weights. `head` must outlive it. Throws a usage Error if a micro-batch does not
/// contain whole pairs, and for dpo if the reference was not computed.
LossHead preference_loss(TokenHead* head);

}  // namespace accrue::models
