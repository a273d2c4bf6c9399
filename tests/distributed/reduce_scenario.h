#pragma once

#include <string>
#include <vector>

#include "accrue/distributed/launch.h"

namespace accrue::distributed {

/// Trains StagedProblem for three windows and prints parameters, totals and events. `words`:
/// accumulation (fp32, fp64, fixed); overlap or end; how micro-batches are shared (turns, first,
/// uneven); then the fault: nothing, nan, aborted, twice, large, lost, damaged and damaged-once
/// (the sums of rank 1, before the reduction, always or once), killed (rank 1, when its first
/// bucket is in progress), apart (parameters are not gathered after the last step of a sharded
/// run); whole, sharded or offloaded; the number of hidden units; and the folder in which sums are
/// offloaded.
void reduce_windows(const Launch& launch, const std::vector<std::string>& words);

/// Ranks that share windows of one model, except rank 1, whose parameters have other shapes.
void other_shapes(const Launch& launch, const std::vector<std::string>& words);

}  // namespace accrue::distributed
