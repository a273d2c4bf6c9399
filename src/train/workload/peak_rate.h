#pragma once

#include "accrue/train/config.h"

namespace accrue::train {

/// optim.lr, scaled to the run's batch, which is stated in samples or tokens (with_whole_batch):
/// the rate from which a schedule falls, in whatever unit its warm-up is stated.
double peak_rate(const Config& config);

}  // namespace accrue::train
