#pragma once

#include <cstdint>

#include "accrue/core/recompute.h"
#include "accrue/models/llama.h"
#include "memory/estimate.h"

namespace accrue::train {

/// Activations of one sample of a full context as accrue keeps them, of a Llama of this shape:
/// memory::transformer_activations with grouped queries, a gated feed-forward part and the norms
/// that the variant has. Of each block's parts it counts what their backward reads.
std::int64_t llama_activations(const models::LlamaOptions& shape, const memory::ValueBytes& bytes,
                               Recompute recompute);

}  // namespace accrue::train
