#pragma once

#include <optional>

#include "train/ranks/ranks.h"
#include "train/run/run_notes.h"

namespace accrue::train {

/// decide_acceleration() for a run, alike on all ranks, which are all to call it: on where it is on
/// everywhere. A run that repeats another and keeps its plan decides as that did.
void settle_acceleration(Workload& work, const Ranks& ranks,
                         const std::optional<Repeated>& repeated);

/// A run goes on as its checkpoint says; one that does not say was trained as the module is
/// written.
void resume_acceleration(Workload& work, std::optional<bool> of_checkpoint);

}  // namespace accrue::train
