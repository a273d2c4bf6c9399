#pragma once

#include <cstdint>
#include <string>

#include "accrue/optim/schedule.h"

namespace accrue::train {

/// How a run comes to its number of updates.
struct UpdateCount {
  std::int64_t steps = 0;               ///< of the run
  std::int64_t accumulation_steps = 1;  ///< micro-batches of one rank in one of them
  std::int64_t samples = 1;             ///< in one of them
  bool is_stated = false;               ///< the run's length is stated in steps
};

/// What a learning rate's schedule cannot do because updates are too rare; empty: nothing. A
/// warm-up that is not over before the run; or, where the number of updates follows from the batch,
/// so few of them that a schedule that falls jumps from one to the next.
std::string rare_updates(const optim::LearningRate& schedule, const UpdateCount& updates);

}  // namespace accrue::train
