#pragma once

#include <cstdint>
#include <vector>

#include "train/workload/workload.h"

namespace accrue::train {

/// The smallest micro-batch that can be trained on: 2 if model.batchnorm = "micro" and a batch
/// normalisation gets a single value per channel from one sample, which has no variance; else 1.
/// Runs one sample, and leaves everything as it was.
std::int64_t least_micro_batch(const Workload& work);

/// Throws a usage Error, before the run begins, if one of its windows has a micro-batch of fewer
/// samples. Windows that depend on several ranks and changing batches are checked as they run.
void expect_values_for_batch_norm(const Workload& work, std::int64_t micro_batch);
/// Throws the same error before a window is run if one of its micro-batches has fewer. `step` is
/// the window's number, from 1. Returns whether the model was tried with one sample and accepted
/// it: then it accepts one in all windows.
bool expect_values_for_batch_norm(const Workload& work,
                                  const std::vector<batch::Range>& micro_batches,
                                  std::int64_t step);

}  // namespace accrue::train
