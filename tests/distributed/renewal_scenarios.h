#pragma once

#include "rank_scenarios.h"

namespace accrue::distributed {

/// Scenarios of groups that are rebuilt.
const std::map<std::string, Scenario>& renewal_scenarios();

}  // namespace accrue::distributed
