#pragma once

#include <nlohmann/json.hpp>

#include "accrue/train/effective_batch.h"

namespace accrue::cli {

/// {"micro_batch", "accumulation_steps", "ranks", "samples", "tokens"} (no tokens for images), and
/// "by_rank" where the batch is no product.
nlohmann::json effective_batch_json(const train::EffectiveBatch& batch);

}  // namespace accrue::cli
