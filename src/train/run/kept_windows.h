#pragma once

#include <cstdint>
#include <string>

#include "train/checkpoint/resume.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Why no window of a run of `world` ranks is kept in its middle; empty where they are.
std::string why_windows_are_not_kept(const Workload& work, std::int64_t world);

/// Decides whether the window that `resumed` is in the middle of goes on there. Where it has to
/// begin again, `resumed` has nothing of it any more, but the reason.
void settle_started_window(Resumed& resumed, const Workload& work, std::int64_t world);

}  // namespace accrue::train
