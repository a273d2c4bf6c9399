#pragma once

#include "verify/doctor/findings.h"

namespace accrue::proof {

/// Takes a run's first optimizer steps, on a separate model, with the run's batch and its
/// learning rates: as many as fit in a quarter of a minute, at most 16. Sets the resulting
/// losses and noise in `facts`, whose other values are known. Takes none if the model with its
/// optimizer would use more than half of the free memory, no label counts, or a run would be
/// refused.
void take_first_steps(RunFacts& facts);

}  // namespace accrue::proof
