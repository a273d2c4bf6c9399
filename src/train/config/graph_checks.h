#pragma once

#include "train/config/checks.h"

namespace accrue::train {

/// Throws if run.graphs is stated with what makes micro-batches differ, or the host look at
/// them.
void check_graphs(const Config& config, const StatedKeys& stated);

}  // namespace accrue::train
