#pragma once

#include <cstdint>

#include "accrue/core/recompute.h"
#include "accrue/models/llama.h"
#include "memory/estimate.h"

namespace accrue::train {

/// Bytes of activations that accrue keeps of one full-context sample of a Llama of this shape:
/// memory::transformer_activations with grouped queries, a gated feed-forward part and the norms of
/// the variant. For each part of a block it counts what the backward reads.
std::int64_t llama_activations(const models::LlamaOptions& shape, const memory::ValueBytes& bytes,
                               Recompute recompute);

}  // namespace accrue::train
