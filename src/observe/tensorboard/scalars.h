#pragma once

#include <vector>

#include "accrue/core/observer.h"
#include "observe/tensorboard/events.h"

namespace accrue::observe {

/// A step's measurements, under TensorBoard's tags (docs/guide/tensorboard.md): each number of its
/// line in metrics.jsonl except the step and the time, which are the event's. Values that were not
/// measured, or are not finite as a float, are left out.
std::vector<Scalar> scalars_of(const StepReport& report);
/// The same for an evaluation.
std::vector<Scalar> scalars_of(const Evaluation& evaluation);

}  // namespace accrue::observe
