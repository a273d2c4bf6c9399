#pragma once

#include <optional>

#include "accrue/core/error.h"
#include "accrue/models/trainable.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Throws a usage Error with the reason if the config requests the layered order or offloading
/// (memory.accumulation, memory.offload) and `model`, its optimizer or the device of the run does
/// not allow it. Conflicts within the config are found as it is read (layered_conflict()).
void check_layered_model(const Config& config, models::Trainable& model);

/// The error if `config`, which states memory.offload, has an optimizer or a device that does not
/// allow it; none if both do.
std::optional<Error> refusal_to_offload(const Config& config);

/// Whether the state of a workload that is not offloaded could be, with memory.offload.
bool may_be_offloaded(const Workload& work);

}  // namespace accrue::train
