#pragma once

#include <cstdint>

#include "accrue/train/setup.h"

namespace accrue::train {

/// What one sample of a user's own model told, in the library's functional forms (step.h,
/// coupled_step.h), which have no config and no run to plan for.
struct MicroTrial {
  std::int64_t bytes_per_sample = 0;  ///< activations and temporaries
  std::int64_t available_bytes = 0;
  std::int64_t window_samples = 0;
};

/// The largest power of two whose predicted activations fit in a quarter of the free memory, at
/// most the window. Pure.
MicroDecision decide_micro_batch(const MicroTrial& trial);

}  // namespace accrue::train
