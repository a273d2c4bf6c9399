#pragma once

#include <memory>

#include "accrue/distributed/group.h"
#include "distributed/group/device_engine.h"

namespace accrue::distributed {

/// connect() with the engine that moves tensors on devices; null: Gloo moves those too, through
/// host memory.
std::shared_ptr<Group> connect_with(MakeDeviceEngine make_device_engine, const Launch& launch,
                                    const GroupOptions& options);

}  // namespace accrue::distributed
