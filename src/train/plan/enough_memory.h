#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/recompute.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// A memory.budget that is enough for the config's micro-batch, or for single samples, with the
/// most recomputation that it allows: by arithmetic from the model's shape, generous where that is
/// not exact. For whoever is refused before anything could be measured. Nothing where the config
/// does not tell the shape (images, models from files).
std::optional<std::int64_t> enough_budget(const Config& config);
/// The same of a workload, whose data and model are known.
std::optional<std::int64_t> enough_budget(const Workload& work);
/// The same for a run whose micro-batches have so many samples, with the recomputation that its
/// plan has.
std::optional<std::int64_t> enough_budget(const Workload& work, std::int64_t micro_batch,
                                          Recompute recompute);

/// What will lie outside tensors once training is under way, where `outside` lie there before.
std::int64_t outside_of_a_run(std::int64_t outside);

}  // namespace accrue::train
