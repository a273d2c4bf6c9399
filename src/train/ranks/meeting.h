#pragma once

#include "accrue/distributed/group.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// How processes that run `config` form a group. Throws a usage Error if it states NCCL and this
/// build does not have it.
distributed::GroupOptions group_options(const Config& config);

}  // namespace accrue::train
