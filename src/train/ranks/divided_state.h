#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "train/ranks/run_optimizer.h"
#include "train/ranks/state_parts.h"

namespace accrue::train {

/// A source of parts of the optimizer's state.
struct StateSource {
  StateParts parts;
  std::function<at::Tensor(std::size_t tensor)> values = {};  ///< that part, one-dimensional
};

/// A rank's parts of the optimizer's state when the group is rebuilt; either may have no step.
struct StateSources {
  StateSource own, replica;
};

/// The parts in an optimizer of a former group and in its replica; both outlive the sources.
StateSources sources_of(const RunOptimizer& optimizer);
/// The whole state in a checkpoint after `step`, for an optimizer like `like`. Throws a usage Error
/// if the checkpoint is of another optimizer.
StateSources sources_of(const StoredTensors& checkpoint, std::int64_t step,
                        const optim::Optimizer& like);

/// The decision of all ranks about an optimizer that replaces the former one (plan_redistribution),
/// based on what they tell each other. `parameters` is the step of this rank's parameters.
/// Collective.
std::optional<Division> agree_on_division(const Ranks& ranks, std::int64_t parameters,
                                          const StateSources& sources,
                                          const optim::Optimizer& optimizer);

/// Copies the agreed state into the optimizer, one tensor at a time from rank to rank. Collective.
/// Throws as collectives do; the optimizer is then unchanged.
void transfer_state(const Ranks& ranks, const Division& division, const StateSources& sources,
                    optim::Optimizer& optimizer);

}  // namespace accrue::train
