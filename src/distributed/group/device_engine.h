#pragma once

#include <functional>

#include "distributed/nccl/nccl_library.h"

namespace accrue::distributed {

/// Makes the engine that moves tensors of a device.
using MakeDeviceEngine = std::function<NcclEngine(const NcclRequest& request)>;

/// The NCCL engine, from libaccrue_nccl.so, which lies next to this program or in ../lib/accrue of
/// its folder. Throws a usage Error if this build does not have it, or it does not load.
NcclEngine make_nccl_engine(const NcclRequest& request);

}  // namespace accrue::distributed
