#pragma once

#include <cstdint>
#include <string>

#include "accrue/optim/schedule.h"

namespace accrue::train {

/// The number of a run's updates, and where it comes from.
struct UpdateCount {
  std::int64_t steps = 0;               ///< of the run
  std::int64_t accumulation_steps = 1;  ///< micro-batches of one rank in a step
  std::int64_t samples = 1;             ///< in a step
  bool is_stated = false;               ///< the run's length is stated in steps
};

/// Why a learning rate's schedule does not work as the updates are too rare; empty if it works.
/// Either the warm-up does not end before the run does; or, if the number of updates follows from
/// the batch, there are so few of them that a falling schedule jumps from one to the next.
std::string rare_updates(const optim::LearningRate& schedule, const UpdateCount& updates);

}  // namespace accrue::train
