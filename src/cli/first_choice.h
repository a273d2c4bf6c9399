#pragma once

#include "train/workload/first/first_config.h"

namespace accrue::cli {

/// What a first config goes by.
train::MachineFacts machine_facts();

}  // namespace accrue::cli
