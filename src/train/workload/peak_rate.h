#pragma once

#include "accrue/train/config.h"

namespace accrue::train {

/// optim.lr, scaled to the run's batch, which is stated in samples or tokens (with_whole_batch):
/// what a schedule falls from, whatever its warm-up is stated in.
double peak_rate(const Config& config);

}  // namespace accrue::train
