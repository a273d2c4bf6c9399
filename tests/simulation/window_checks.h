#pragma once

#include <string>
#include <vector>

#include "distributed/reduce/status_row.h"
#include "distributed/schedule/leases.h"
#include "train/ranks/left_of_window.h"

namespace accrue::simulation {

/// What does not hold of a window whose ranks have these samples in their sums: each is to be there
/// once, and no other. Empty if that is so.
std::string what_is_wrong(batch::Range window, const train::RangesOfRanks& done);

/// The rows that ranks exchange at a window's close, of samples of weight 1 that are a micro-batch
/// each. `shares` are those that WindowShares gave, none if ranks took parts; `seconds` what
/// each rank worked.
std::vector<distributed::RankStatus> rows_of(std::int64_t window, const train::RangesOfRanks& done,
                                             const std::vector<distributed::Lease>& shares,
                                             const std::vector<double>& seconds);

}  // namespace accrue::simulation
