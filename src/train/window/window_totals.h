#pragma once

#include "train/window/micro_batch_runner.h"

namespace accrue::train {

/// Before a window that ranks share is closed: what they add up of it beside weights and losses.
/// `own_seconds` are this rank's, without its waiting for the others.
void tell_rank_sums(distributed::DeferredReduce& reduce, const WindowHooks& hooks,
                    double own_seconds, const WindowRun& result);

/// After it was closed: `result` becomes that of all ranks.
void take_totals(const distributed::DeferredReduce& reduce, WindowRun& result);

}  // namespace accrue::train
