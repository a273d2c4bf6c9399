#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/checkpoint/resume.h"
#include "train/run/rank_changes.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Why a run of `world` ranks saves no window in its middle; empty if it does.
std::string why_windows_are_not_kept(const Workload& work, std::int64_t world);

/// Decides whether the window in the middle of which `resumed` was saved continues from there. If
/// it has to start again, only the reason stays in `resumed`.
void settle_started_window(Resumed& resumed, const Workload& work, std::int64_t world);

/// This rank's part of the window in the middle of which several ranks wrote a checkpoint; none if
/// it was between windows. The first rank continues with what is done, whose sums are in
/// `of_window`; the others get only a share of the rest. Collective.
std::optional<StartedWindow> part_of_started_window(const ChangingRun& run, TrainState& state,
                                                    StoredTensors& of_window);

}  // namespace accrue::train
