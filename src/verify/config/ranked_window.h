#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/model.h"
#include "train/plan/setup.h"
#include "train/workload/workload.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Why what `ranks` make of a window is not compared: it is not exact by design, or this build has
/// no process groups. Nothing if it is.
std::optional<std::string> why_ranks_are_skipped(const train::Config& config, std::int64_t ranks);

/// The run's first window by ranks that share it, or are the stages of a pipeline, as training does
/// it: each is a thread of this process with a model of its own, of `models`, which begin alike,
/// and an equal part of this process's threads. Their sums are reduced as the config says. Each
/// parameter's sum is put together from parts of it on all ranks.
///
/// Throws what training throws if the config or the model cannot be divided so, and whatever
/// a rank throws first.
Gradients window_of_ranks(const train::Workload& work,
                          std::vector<std::unique_ptr<models::Model>> models,
                          const train::MicroDecision& micro);

}  // namespace accrue::proof
