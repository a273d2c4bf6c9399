#pragma once

#include <vector>

#include "train/window/runner.h"

namespace accrue::train {

/// Closes a window that belongs to one process, and puts its result and its counts into `run`.
void close_window(accum::Window& window, WindowRun& run);

/// What a rank was asked for while it filled its share of a window.
struct Asked {
  bool to_stop = false;
  bool for_checkpoint = false;
};

/// Closes this rank's share of a window. The ranks add up its totals, what they were asked for, and
/// `rank_sums`, as many on each; `run` becomes that of all ranks. Where some of them have samples
/// left (WindowRun::left) its counts stay those of this rank (accum::Window::is_unfinished).
void close_shared_window(accum::Window& window, distributed::DeferredReduce& reduce,
                         const Asked& asked, const std::vector<double>& rank_sums, WindowRun& run);

}  // namespace accrue::train
