#pragma once

#include "rank_scenarios.h"

namespace accrue::distributed {

/// The behaviour of ranks while a process without their token writes into their store. Rank 1's
/// process plays the stranger, by c10d's own client.
const std::map<std::string, Scenario>& stranger_scenarios();

}  // namespace accrue::distributed
