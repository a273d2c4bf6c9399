#pragma once

#include "rank_scenarios.h"

namespace accrue::distributed {

/// "rounds LOCAL_STEPS STEPS LR MOMENTUM PARTS DELAY COMPRESS": trains testing::outer_parameters()
/// and prints them.
void take_rounds(const Launch& launch, const Words& words);

}  // namespace accrue::distributed
