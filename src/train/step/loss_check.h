#pragma once

#include <cstdint>

#include "accrue/train/step.h"

namespace accrue::train {

/// Checks a loss function before it is used in training, on at most four samples: that it does not
/// change the parameters, and that its losses add up, so that micro-batches give the gradient of
/// their batch. Weights always have to add up. Sums have to if the model has no batch normalisation
/// and gives the same loss twice, so that dropout cannot hide a difference.
///
/// Buffers and random generators are restored, and parameters too if they were changed. Throws a
/// usage Error of `operation` that names what is wrong.
void check_loss_function(const char* operation, const detail::SteppedModel& model,
                         const detail::RunSlice& run, std::int64_t samples);

}  // namespace accrue::train
