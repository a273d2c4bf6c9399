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

/// What [observe] asks for, but for the progress of a run that is to be quiet.
ObserveConfig observed(const Config& config, bool is_quiet);

/// The run that sinks are made for.
struct SinkContext {
  const Config& config;
  const ObserveConfig& observed;  ///< what is observed, if it is not all that the config says
  const RunPlan& plan;
  const RunDirectory& directory;
  const RunClaim& claim;             ///< that this process has on it; outlives what is told
  std::int64_t first_step = 0;       ///< steps done already
  observe::MetricsAccount& metrics;  ///< of metrics.jsonl; outlives what is told
};

/// The observers that [observe] asks for. What an earlier attempt told of steps after `first_step`
/// no longer counts. Those that write into the run directory do so while this process holds it.
std::vector<std::shared_ptr<Observer>> make_sinks(const SinkContext& run);

}  // namespace accrue::train
