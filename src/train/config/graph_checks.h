#pragma once

#include "train/config/checks.h"

namespace accrue::train {

/// Throws if run.graphs is stated together with a setting under which micro-batches differ, or the
/// host reads their results.
void check_graphs(const Config& config, const StatedKeys& stated);

}  // namespace accrue::train
