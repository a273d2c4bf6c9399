#pragma once

#include <optional>

#include "train/ranks/ranks.h"
#include "train/run/run_notes.h"

namespace accrue::train {

/// decide_acceleration() for a run, the same on all ranks: on if it is on everywhere. Collective. A
/// run that repeats another and keeps its plan adopts that run's decision.
void settle_acceleration(Workload& work, const Ranks& ranks,
                         const std::optional<OriginalRun>& repeated);

/// A run continues with its checkpoint's setting; without one the run was trained with the module's
/// own operations.
void resume_acceleration(Workload& work, std::optional<bool> of_checkpoint);

}  // namespace accrue::train
