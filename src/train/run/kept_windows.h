#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/checkpoint/resume.h"
#include "train/run/rank_changes.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Why no window of a run of `world` ranks is kept in its middle; empty if they are.
std::string why_windows_are_not_kept(const Workload& work, std::int64_t world);

/// Decides whether the window that `resumed` is in the middle of goes on there. If it has to
/// begin again, `resumed` has nothing of it any more, but the reason.
void settle_started_window(Resumed& resumed, const Workload& work, std::int64_t world);

/// This rank's part of the window that the checkpoint of several ranks is in the middle of; none
/// if it is in none. The first of them goes on with what is done, whose sums `of_window` has;
/// the others have nothing of that any more, and a share of the rest. All ranks call it.
std::optional<StartedWindow> part_of_started_window(const ChangingRun& run, TrainState& state,
                                                    StoredTensors& of_window);

}  // namespace accrue::train
