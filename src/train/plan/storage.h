#pragma once

#include "accrue/train/config.h"
#include "memory/estimate.h"

namespace accrue::train {

/// What precision.compute makes of a model's values.
memory::ValueBytes value_bytes_of(const Config& config);

/// What the config has accrue hold for each parameter.
memory::Storage storage_of(const Config& config);

}  // namespace accrue::train
