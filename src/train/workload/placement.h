#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "accrue/models/model.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// The device that run.device says, for the rank that a launcher started: the one of its number on
/// its machine. "auto": a GPU if there is one, unless run.kernels asks for the CPU's own.
/// Throws a usage Error if it is not there (device::open), or where precision.compute is fp16
/// and the CPU's own kernels would compute it.
c10::Device device_of(const Config& config);

/// Whether that is the CPU. Throws nothing if a device that is stated is not there.
bool is_for_cpu(const Config& config);

/// Moves parameters and buffers, which keep their identity.
void place(models::Model& model, c10::Device device);
/// Where place() has put them.
c10::Device device_of(const models::Model& model);
/// The bytes of parameters and buffers.
std::int64_t bytes_of(const models::Model& model);

}  // namespace accrue::train
