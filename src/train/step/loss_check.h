#pragma once

#include <cstdint>

#include "accrue/train/step.h"

namespace accrue::train {

/// Looks at a loss function before anything is trained by it, on at most four samples: whether it
/// leaves the parameters alone, and whether its losses add up, so that micro-batches make the
/// gradient of their batch. Weights have to add up in any case. Sums have to where the model is
/// without batch normalisation and gives the same loss twice, so that no dropout hides it.
///
/// Buffers and random generators are put back, parameters too where they were changed. Throws a
/// usage Error of `operation` that names what is wrong.
void check_loss_function(const char* operation, const detail::SteppedModel& model,
                         const detail::RunSlice& run, std::int64_t samples);

}  // namespace accrue::train
