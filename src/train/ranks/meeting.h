#pragma once

#include "accrue/distributed/group.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// How processes that run `config` meet. Throws a usage Error if it states NCCL and this build
/// has none.
distributed::GroupOptions group_options(const Config& config);

}  // namespace accrue::train
