#pragma once

#include "train/workload/workload.h"

namespace accrue::train {

/// Decides whether accrue runs the operations of a foreign model itself, by model.accelerate:
/// "auto" if the results agree with libtorch's on the first samples (check_acceleration) and there
/// is an operation that accrue can run. Applies the decision to the model, to the config, from
/// which copies of the model are made, and to Workload::acceleration. Does nothing for other
/// models. Call it before the first pass of training, planning, measuring or verifying.
void decide_acceleration(Workload& work);

/// Applies a decision that was made elsewhere; `who_says` names its source: "the checkpoint says".
void accelerate_as(Workload& work, bool on, const std::string& who_says);

}  // namespace accrue::train
