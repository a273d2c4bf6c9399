#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/memory/shard_scope.h"
#include "accrue/models/model.h"
#include "train/plan/setup.h"
#include "train/workload/workload.h"
#include "verify/config/training_parts.h"
#include "verify/subject.h"

namespace accrue::proof {

/// The reason why the window of `ranks` is not compared: it is not exact by design, or this build
/// has no process groups. Nothing if it is compared.
std::optional<std::string> why_ranks_are_skipped(const train::Config& config, std::int64_t ranks);

/// To be kept from before the ranks' models are made until the ranks are done: where each has its
/// part of the model. Null unless the config divides the model (dist.shard = "all"). Throws as
/// memory::ShardScope.
std::unique_ptr<memory::ShardScope> scope_of_ranks(const train::Config& config);

/// The run's first window by ranks that share it, or are the stages of a pipeline, as in training:
/// each is a thread of this process with its own model from `models`, which start equal, and an
/// equal part of this process's threads. Their sums are reduced as configured. Each parameter's sum
/// is composed of parts of it on all ranks.
///
/// Throws the errors of training if the config or the model cannot be divided this way, and the
/// first exception of a rank.
Gradients window_of_ranks(const train::Workload& work,
                          std::vector<std::unique_ptr<models::Model>> models,
                          const train::MicroDecision& micro,
                          const TrainingParts& parts = training_parts());

/// The trained parameters of each rank, by rank, after an optimizer step for each of `windows` by
/// the same threads. The ranks step as `work.config` states: each all parameters, or each its part
/// of a divided optimizer. Window i has the random numbers of the run's window i. Throws as
/// window_of_ranks() does.
std::vector<std::vector<at::Tensor>> parameters_after_steps_of_ranks(
    const train::Workload& work, std::vector<std::unique_ptr<models::Model>> models,
    const train::MicroDecision& micro, const std::vector<batch::Range>& windows,
    const TrainingParts& parts = training_parts());

}  // namespace accrue::proof
