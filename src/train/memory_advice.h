#pragma once

#include <string>

#include "accrue/train/trainer.h"

namespace accrue::train {

/// Why a run of this config may not change its micro-batches when memory runs out: they are part of
/// the mathematics. Empty where it may.
std::string why_no_split(const Config& config);

/// What to try where a single sample does not fit, with the bytes that were missing last.
std::string what_would_fit(const Config& config, const RunPlan& plan);

}  // namespace accrue::train
