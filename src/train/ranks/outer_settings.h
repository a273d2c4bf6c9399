#pragma once

#include "accrue/train/config.h"
#include "distributed/schedule/outer_schedule.h"

namespace accrue::train {

/// The rounds that a config asks for: its outer rates as they are stated, a rate that is not with
/// the other one being lr 1 or momentum 0; if neither is, distributed::usual_outer_rates().
distributed::OuterOptions outer_settings(const DistConfig& dist);

/// Whether a config leaves the outer rates to the length of its rounds.
bool has_usual_outer_rates(const DistConfig& dist);

}  // namespace accrue::train
