#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/recompute.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// A config of text without a vocabulary gets the one that its data probably have: of bytes, or a
/// larger one than usual.
Config with_assumed_vocabulary(Config config);

/// A memory.budget that is sufficient for the config's micro-batch, or for single samples, with the
/// most recomputation that it allows: computed from the model's shape, with a margin if that is
/// not exact. It advises users whose run is refused before anything could be measured. None if the
/// config does not determine the shape (images, models from files).
std::optional<std::int64_t> enough_budget(const Config& config);
/// A budget that is sufficient for a workload, whose data and model are known.
std::optional<std::int64_t> enough_budget(const Workload& work);
/// A budget that is sufficient for a run with micro-batches of `micro_batch` samples and its plan's
/// recomputation.
std::optional<std::int64_t> enough_budget(const Workload& work, std::int64_t micro_batch,
                                          Recompute recompute);

/// The smallest budget with which a run continues: enough_budget() for micro-batches of that many
/// samples and the memory now outside tensors; without a known shape, the present use.
std::int64_t budget_to_go_on(const Workload& work, std::int64_t micro_batch, Recompute recompute);

/// The memory outside tensors once training runs, if it was `outside` before.
std::int64_t outside_of_a_run(std::int64_t outside);

}  // namespace accrue::train
