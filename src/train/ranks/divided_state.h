#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "train/ranks/run_optimizer.h"
#include "train/ranks/state_parts.h"

namespace accrue::train {

/// Where a rank takes parts of the optimizer's state from.
struct StateSource {
  StateParts parts;
  std::function<at::Tensor(std::size_t tensor)> values = {};  ///< that part, one-dimensional
};

/// What a rank has of the optimizer's state when the group is made anew; either may be of no step.
struct StateSources {
  StateSource own, replica;
};

/// What an optimizer of a former group and its replica have; both outlive the sources.
StateSources sources_of(const RunOptimizer& optimizer);
/// All of the state as a checkpoint has it after `step`, for an optimizer like `like`. Throws a
/// usage Error if the checkpoint has another optimizer's.
StateSources sources_of(const StoredTensors& checkpoint, std::int64_t step,
                        const optim::Optimizer& like);

/// What all ranks decide about an optimizer that takes the former one's place (divide_anew), from
/// what they tell each other. `parameters` is the step that this rank's are of. All ranks call it.
std::optional<Division> agree_on_division(const Ranks& ranks, std::int64_t parameters,
                                          const StateSources& sources,
                                          const optim::Optimizer& optimizer);

/// Brings what was decided into the optimizer, one tensor at a time from rank to rank. All ranks
/// call it. Throws as collectives do; the optimizer is as it was then.
void take_in(const Ranks& ranks, const Division& division, const StateSources& sources,
             optim::Optimizer& optimizer);

}  // namespace accrue::train
