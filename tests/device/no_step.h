#pragma once

#include "accrue/accum/accumulator.h"

namespace accrue::testing {

/// A step that leaves the parameters as they are.
inline const Accumulator::StepFunction kNoStep = [](accum::MeanGradient&&) {};

}  // namespace accrue::testing
