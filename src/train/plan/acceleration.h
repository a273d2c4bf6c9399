#pragma once

#include "train/workload/workload.h"

namespace accrue::train {

/// Decides whether accrue does the operations of a model that is not its own, as model.accelerate
/// says: "auto" if they agree with libtorch's on the first samples (check_acceleration) and
/// there is one that it does. Puts the decision into effect: the model, the config, from which
/// copies of it are made, and Workload::acceleration. Does nothing of other models. Whoever trains,
/// plans, measures or proves decides before its first pass.
void decide_acceleration(Workload& work);

/// Puts a decision that was made elsewhere into effect; `who_says` so, as in "the checkpoint says".
void accelerate_as(Workload& work, bool on, const std::string& who_says);

}  // namespace accrue::train
