#pragma once

#include "observe/history/run_history.h"

namespace accrue::observe {

/// `table` with columns computed from it, each NaN where a needed value was not measured:
///   batch_samples        if steps do not have it: the difference of the cumulative samples
///   samples_per_second   if tokens are not counted
///   part.compute, part.reduce_hidden, part.reduce_exposed, part.optimizer, part.data,
///   part.checkpoint, part.rest   seconds of a step that add up to its time; with that of a
///   checkpoint that was begun before it
///   offload_wait_share   offload_wait_seconds as a part of the step's time
StepTable with_derived(StepTable table);

}  // namespace accrue::observe
