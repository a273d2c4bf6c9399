#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "changed_model.h"
#include "configs_to_verify.h"
#include "verify/config/config_subject.h"
#include "verify/config/ranked_window.h"
#include "verify/prover.h"

namespace accrue::proof::testing {

/// Compares windows and steps of ranks, which are threads, with those of one process.
class ComparedRanks : public ConfigsToVerify {
 protected:
  static constexpr std::int64_t kMicro = 4;

  static std::string why(const Report& report) {
    return conclusion(report) + ::testing::PrintToString(report.evidence);
  }
  static Report verified_by_two(const train::Config& config, const TrainingParts& parts) {
    train::Workload work = train::open_workload(config);
    work.ranks = train::ranks_that_share(config, 2);
    return verify_workload(std::move(work), {.ranks = 2}, parts);
  }
  /// Compares the window of `ranks` ranks. The model of rank 1 has a fault.
  static SplitResult compared(const train::Config& config, const ChangedModel::Fault& fault,
                              const TrainingParts& parts = training_parts(), std::int64_t ranks = 2,
                              std::int64_t micro = kMicro) {
    train::Workload work = train::open_workload(config);
    work.ranks = train::ranks_that_share(config, ranks);
    ConfigSubject subject(work);
    const std::unique_ptr<memory::ShardScope> scope = scope_of_ranks(config);
    std::vector<std::unique_ptr<models::Model>> models;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      models.push_back(std::make_unique<ChangedModel>(copy_of(*work.model, work.config),
                                                      rank == 1 ? fault : ChangedModel::Fault()));
    const Gradients of_ranks = window_of_ranks(work, std::move(models), {.samples = micro}, parts);
    Prover prover(subject, subject.window(), 2);
    Findings findings(subject.parameters());
    return prover.record(even_split(subject.window(), micro), of_ranks, findings);
  }
  /// A model with parameters that are large enough to be divided.
  train::Config of_divided_text() const {
    train::Config config = of_text();
    config.model.width = 64;
    config.dist.shard = train::Shard::all;
    return config;
  }
};

}  // namespace accrue::proof::testing
