#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/train/config.h"

namespace accrue::train {

/// The facts by which memory.offload = "auto" places the state of a run.
struct OffloadFacts {
  /// Parameters, sums of gradients and optimizer state; none if the config does not determine the
  /// model's shape.
  std::optional<std::int64_t> state_bytes;
  std::int64_t sample_bytes = 0;  ///< to compute one sample with
  std::int64_t limit_bytes = 0;   ///< for tensors
  bool is_budget = false;         ///< the limit is memory.budget's, and not the machine's
  std::string obstacle;           ///< why the run cannot be offloaded; empty if it can
  std::string folder;             ///< for the file
};

struct OffloadDecision {
  bool offloads = false;
  std::string reason;  ///< for people
};

/// Keeps the state in memory if it fits with one sample, if its size is not known, and if the run
/// cannot be offloaded. A pure function.
OffloadDecision decide_offload(const OffloadFacts& facts);

/// A config whose memory.offload is a folder or empty.
struct OffloadChoice {
  Config config;
  std::string reason;  ///< for people; empty if the config left nothing open
};

/// Decides memory.offload = "auto" for a run of `ranks` processes, before its model is made: by
/// arithmetic on the config's shape, and the budget in force or the free memory. If
/// memory.accumulation is "auto", too, it becomes the order that the decision needs. Other configs
/// stay as they are. Throws a usage Error if files that the config names cannot be read.
OffloadChoice choose_offload(Config config, std::int64_t ranks);

/// `config` for continuing a run that was begun as `of_run`: if memory.offload = "auto" and
/// memory.accumulation = "auto", the order is the run's.
Config with_order_of_run(Config config, const Config& of_run);

}  // namespace accrue::train
