#pragma once

#include <cstdint>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::train {

/// The fewest samples of a micro-batch that can be trained on: 2 where model.batchnorm = "micro"
/// and one sample leaves a batch normalisation one value for each channel, of which there is no
/// variance; else 1. Runs one sample, and leaves everything as it was.
std::int64_t least_micro_batch(const Workload& work);

/// Throws a usage Error if the run has a window with a micro-batch of fewer samples, before it
/// begins. What several ranks and changing batches make of a window shows as they run.
void expect_values_for_batch_norm(const Workload& work, std::int64_t micro_batch);
/// Throws it if one of a window's micro-batches has fewer, before the window is run. `step` is the
/// window's number, from 1. Returns whether the model was tried with one sample, which it took: it
/// takes one in all windows.
bool expect_values_for_batch_norm(const Workload& work,
                                  const std::vector<batch::Range>& micro_batches,
                                  std::int64_t step);

}  // namespace accrue::train
