#pragma once

#include "accrue/train/plan_estimate.h"

namespace accrue::cli {

/// What `accrue plan --estimate` prints.
void print_estimate(const train::RunEstimate& estimate, bool json);

}  // namespace accrue::cli
