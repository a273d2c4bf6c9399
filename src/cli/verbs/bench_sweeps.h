#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/measure/batch_sweep.h"
#include "train/measure/rate_sweep.h"

namespace accrue::cli {

/// The output of `accrue bench` for its sweeps of learning rates and of batches.
nlohmann::json to_json(const train::RateSweep& sweep);
void print(const train::RateSweep& sweep);
nlohmann::json to_json(const train::BatchSweep& sweep);
void print(const train::BatchSweep& sweep);

}  // namespace accrue::cli
