#pragma once

#include <vector>

#include "train/window/runner.h"

namespace accrue::train {

/// Closes a window that belongs to one process, and puts its result and its counts into `run`.
void close_window(accum::Window& window, WindowRun& run);

/// Closes this rank's share of a window. The ranks add up its totals, whether one of them was asked
/// to stop, and `rank_sums`, as many on each; `run` becomes that of all ranks.
void close_shared_window(accum::Window& window, distributed::DeferredReduce& reduce,
                         bool asked_to_stop, const std::vector<double>& rank_sums, WindowRun& run);

}  // namespace accrue::train
