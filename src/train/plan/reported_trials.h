#pragma once

#include <functional>
#include <string>

#include "train/plan/plan_trials.h"

namespace accrue::train {

/// Runs `trials`, which must outlive it, and reports what is tried before it is: each point that is
/// tried for the first time, and once that points are timed again.
memory::Trial reported_trials(PlanTrials& trials,
                              std::function<void(const std::string& what)> tell);

}  // namespace accrue::train
