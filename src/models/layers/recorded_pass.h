#pragma once

#include <optional>
#include <vector>

#include "models/layers/losses/token_head.h"
#include "models/layers/projection.h"

namespace accrue::models {

/// Trainable::prepare_recorded_pass() of a language model without dropout whose products are
/// those of `projections` and of `head`, for activations in this dtype. None if an adapter draws
/// masks, or has norms that are recomputed (DoRA), and if the loss is one of pairs, or of whole
/// logits.
std::optional<std::vector<at::Tensor>> prepare_recorded_pass(
    const std::vector<Projection*>& projections, TokenHead& head, at::ScalarType activations);

}  // namespace accrue::models
