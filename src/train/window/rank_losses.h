#pragma once

#include <vector>

#include "distributed/reduce/deferred_reduce.h"

namespace accrue::train {

/// A window's sums by loss (WindowLosses::sums) over the ranks that share it. Collective, before
/// the window's reduction begins; nothing is sent if weights are not counted.
std::vector<double> add_up_over_ranks(distributed::DeferredReduce& reduce,
                                      const std::vector<double>& mine);

}  // namespace accrue::train
