#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The observers that [observe] asks for. `first_step` is the number of steps done already; later
/// lines of an earlier attempt are removed from metrics.jsonl.
std::vector<std::shared_ptr<Observer>> make_sinks(const ObserveConfig& config,
                                                  const RunDirectory& directory,
                                                  std::int64_t first_step);

}  // namespace accrue::train
