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
/// not exact. It is for whoever is refused before anything could be measured. Nothing if the
/// config does not tell the shape (images, models from files).
std::optional<std::int64_t> enough_budget(const Config& config);
/// A budget that is enough for a workload, whose data and model are known.
std::optional<std::int64_t> enough_budget(const Workload& work);
/// A budget that is enough for a run with micro-batches of `micro_batch` samples and its plan's
/// recomputation.
std::optional<std::int64_t> enough_budget(const Workload& work, std::int64_t micro_batch,
                                          Recompute recompute);

/// The least budget that a run goes on with: enough_budget() of it, micro-batches of `micro_batch`
/// samples, with what lies outside tensors now; if the shape is not known, what it holds.
std::int64_t budget_to_go_on(const Workload& work, std::int64_t micro_batch, Recompute recompute);

/// What will lie outside tensors once training is under way, where `outside` lie there before.
std::int64_t outside_of_a_run(std::int64_t outside);

}  // namespace accrue::train
