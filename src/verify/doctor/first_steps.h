#pragma once

#include "verify/doctor/findings.h"

namespace accrue::proof {

/// Takes a run's first optimizer steps, on a model of their own, with the run's batch and its
/// learning rates: as many as a quarter of a minute holds, at most 16. Sets what they say of losses
/// and noise in `facts`, whose other values are known. Takes none where the model with its
/// optimizer would take more than half of the memory that is left, no label counts, or a run would
/// be refused.
void take_first_steps(RunFacts& facts);

}  // namespace accrue::proof
