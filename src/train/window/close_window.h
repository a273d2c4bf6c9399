#pragma once

#include <vector>

#include "train/window/runner.h"

namespace accrue::train {

/// Closes a window that belongs to one process, and writes its result and its counts to `run`.
void close_window(accum::Window& window, WindowRun& run);

/// The requests to a rank while it filled its share of a window.
struct Asked {
  bool to_stop = false;
  bool for_checkpoint = false;
};

/// Closes this rank's share of a window. The ranks add up its totals, the requests, and
/// `rank_sums`, the same number on each; `run` becomes that of all. If some have samples left
/// (WindowRun::left) its counts stay those of this rank (accum::Window::is_unfinished).
void close_shared_window(accum::Window& window, distributed::DeferredReduce& reduce,
                         const Asked& asked, const std::vector<double>& rank_sums, WindowRun& run);

}  // namespace accrue::train
