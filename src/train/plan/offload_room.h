#pragma once

#include "accrue/train/config.h"

namespace accrue::train {

/// Throws a refused Error (exit status 3) if the state of this config surely exceeds
/// memory.offload_budget, by arithmetic: before a file is created. If the config does not determine
/// the model's shape, or in doubt, the file itself refuses what exceeds its budget.
void check_offload_budget(const Config& config);

}  // namespace accrue::train
