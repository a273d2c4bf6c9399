#pragma once

#include "train/workload/first/first_config.h"

namespace accrue::cli {

/// The properties of this machine for a first config.
train::MachineFacts machine_facts();

}  // namespace accrue::cli
