#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "accrue/models/model.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// The device of run.device, for the rank that a launcher started: the one with its number on its
/// machine. "auto": a GPU if there is one, unless run.kernels asks for the CPU's own. Throws a
/// usage Error if the device does not exist (device::open), or if precision.compute is fp16 and the
/// CPU's own kernels would compute it.
c10::Device device_of(const Config& config);

/// Whether that is the CPU. Does not throw if a stated device does not exist.
bool is_for_cpu(const Config& config);

/// Moves parameters and buffers, which keep their identity.
void place(models::Model& model, c10::Device device);
/// The device to which place() has moved it.
c10::Device device_of(const models::Model& model);
/// The bytes of parameters and buffers.
std::int64_t bytes_of(const models::Model& model);

}  // namespace accrue::train
