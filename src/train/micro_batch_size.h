#pragma once

#include <cstdint>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/batch/micro_batch.h"
#include "accrue/models/trainable.h"
#include "accrue/train/setup.h"

namespace accrue::train {

/// What one trial micro-batch told.
struct MicroTrial {
  std::int64_t bytes_per_sample = 0;  ///< activations and temporaries
  std::int64_t available_bytes = 0;
  std::int64_t window_samples = 0;
};

/// The largest power of two whose predicted activations fit in a quarter of the free memory, at
/// most the window. Pure.
MicroDecision decide_micro_batch(const MicroTrial& trial);

/// Runs one sample forward and backward into a window that is dropped, and measures it.
MicroTrial measure_micro_batch(models::Trainable& model,
                               std::shared_ptr<accum::GradientBuffer> buffer,
                               const batch::MicroBatch& one_sample, std::int64_t window_samples);

}  // namespace accrue::train
