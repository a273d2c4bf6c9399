#pragma once

#include "accrue/models/trainable.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// Throws a usage Error with the reason if the config requests the layered order or offloading
/// (memory.accumulation, memory.offload) and `model`, its optimizer or the device of the run does
/// not allow it. Conflicts within the config are found as it is read (layered_conflict()).
void check_layered_model(const Config& config, models::Trainable& model);

}  // namespace accrue::train
