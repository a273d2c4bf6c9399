#pragma once

#include <cstdint>

#include "train/plan/setup.h"

namespace accrue::train {

/// Measurements on one sample of a user's own model, for the library's functional forms (step.h,
/// coupled_step.h), which have no config and no run to plan for.
struct MicroTrial {
  std::int64_t bytes_per_sample = 0;  ///< activations and temporaries; 0: nothing could be measured
  std::int64_t available_bytes = 0;
  std::int64_t window_samples = 0;
  bool of_a_budget = false;  ///< `available_bytes` is the rest of a budget, which is enforced
};

/// A trial with the memory that is available now: the part of the budget that tensors do not use,
/// or, without a budget, the free memory.
MicroTrial micro_trial(std::int64_t bytes_per_sample, std::int64_t window_samples);

/// Chooses the whole window, or the largest power of two of samples, whose predicted activations
/// fit in a quarter of the free memory, or in half of the rest of a budget; the window if nothing
/// could be measured. A pure function.
MicroDecision decide_micro_batch(const MicroTrial& trial);

/// Throws a usage Error of `operation` if the batch has no sample (and `may_be_empty` is not set)
/// or the size is negative.
void check_batch(const char* operation, std::int64_t samples, std::int64_t micro_batch,
                 bool may_be_empty = false);

}  // namespace accrue::train
