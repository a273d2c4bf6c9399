#pragma once

#include <string>
#include <vector>

#include "distributed/reduce/status_row.h"
#include "distributed/schedule/leases.h"
#include "train/ranks/remaining_window.h"

namespace accrue::simulation {

/// The error in a window whose ranks have these samples in their sums: each must be there once, and
/// no other. Empty if there is none.
std::string what_is_wrong(batch::Range window, const train::RangesOfRanks& done);

/// The rows that ranks exchange at a window's close, for samples of weight 1 that are one
/// micro-batch each. `shares` come from WindowShares, or are none if ranks took parts; `seconds`
/// are the working times of the ranks.
std::vector<distributed::RankStatus> rows_of(std::int64_t window, const train::RangesOfRanks& done,
                                             const std::vector<distributed::Lease>& shares,
                                             const std::vector<double>& seconds);

}  // namespace accrue::simulation
