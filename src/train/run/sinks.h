#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/run_plan.h"
#include "observe/metrics_account.h"
#include "train/checkpoint/run_claim.h"

namespace accrue::train {

/// The settings of [observe], without the progress if the run is to be quiet.
ObserveConfig observed(const Config& config, bool is_quiet);

/// The run for which sinks are made.
struct SinkContext {
  const Config& config;
  const ObserveConfig& observed;  ///< what is observed, if it is not everything in the config
  const RunPlan& plan;
  const RunDirectory& directory;
  const RunClaim& claim;             ///< the claim of this process; outlives the sinks
  std::int64_t first_step = 0;       ///< steps that are already done
  observe::MetricsAccount& metrics;  ///< of metrics.jsonl; outlives the sinks
};

/// The observers that [observe] requests. Steps after `first_step` that an earlier attempt reported
/// no longer count. Those that write into the run directory do so while this process holds it.
std::vector<std::shared_ptr<Observer>> make_sinks(const SinkContext& run);

}  // namespace accrue::train
