#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/run_plan.h"

namespace accrue::train {

/// The run that sinks are made for.
struct SinkContext {
  const Config& config;
  const ObserveConfig& observed;  ///< what is observed, where it is not all that the config says
  const RunPlan& plan;
  const RunDirectory& directory;
  std::int64_t first_step = 0;  ///< steps done already
};

/// The observers that [observe] asks for. What an earlier attempt told of steps after `first_step`
/// no longer counts.
std::vector<std::shared_ptr<Observer>> make_sinks(const SinkContext& run);

}  // namespace accrue::train
