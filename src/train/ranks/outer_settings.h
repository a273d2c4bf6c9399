#pragma once

#include "accrue/train/config.h"
#include "distributed/schedule/outer_schedule.h"

namespace accrue::train {

/// The rounds of a config, with its outer rates as stated. If only one of the two is stated, the
/// other is lr 1 or momentum 0; if neither is, both are distributed::usual_outer_rates().
distributed::OuterOptions outer_settings(const DistConfig& dist);

/// Whether a config lets the length of its rounds determine the outer rates.
bool has_usual_outer_rates(const DistConfig& dist);

}  // namespace accrue::train
