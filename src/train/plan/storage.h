#pragma once

#include "accrue/train/config.h"
#include "memory/estimate.h"

namespace accrue::train {

/// The bytes of a model's values under precision.compute.
memory::ValueBytes value_bytes_of(const Config& config);

/// The memory that accrue holds for each parameter under this config.
memory::Storage storage_of(const Config& config);

}  // namespace accrue::train
