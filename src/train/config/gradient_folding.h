#pragma once

#include <optional>

#include "accrue/train/config.h"
#include "train/config/conflict.h"

namespace accrue::train {

/// Whether micro-batches' gradients go directly into the optimizer's state and there is no gradient
/// buffer: `optim.kind = "adama"`, or `memory.gradients = "optimizer"`.
bool folds_gradients(const Config& config);

/// The setting in `config` that conflicts with folded gradients, or with the precision of the
/// optimizer's state: the single table (docs/guide/config.md), for all verbs.
std::optional<Conflict> optimizer_memory_conflict(const Config& config);

}  // namespace accrue::train
