#pragma once

#include <vector>

#include "accrue/core/observer.h"
#include "observe/tensorboard/events.h"

namespace accrue::observe {

/// What a step measured, under TensorBoard's tags (docs/guide/tensorboard.md): each number of its
/// line in metrics.jsonl but for the step and the time, which are the event's. What was not
/// measured, or is not finite as a float, is left out.
std::vector<Scalar> scalars_of(const StepReport& report);
/// The same of an evaluation.
std::vector<Scalar> scalars_of(const Evaluation& evaluation);

}  // namespace accrue::observe
