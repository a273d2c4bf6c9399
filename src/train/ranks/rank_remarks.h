#pragma once

#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/effective_batch.h"
#include "train/checkpoint/resume.h"

namespace accrue::train {

/// Remarks for the start of a run by `world` ranks: which ranks have no share of its `batch`,
/// whether a key of [dist] has another effect than its name promises, and what a resumption cannot
/// continue with. `resumed` is null for a new run.
std::vector<std::string> rank_remarks(const Config& config, const EffectiveBatch& batch,
                                      std::int64_t world, const Resumed* resumed);

}  // namespace accrue::train
