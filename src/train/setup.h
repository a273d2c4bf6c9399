#pragma once

#include <cstdint>

#include "accrue/train/config.h"
#include "accrue/train/workload.h"
#include "micro_batch_size.h"

namespace accrue::train {

/// Sets the threads of libtorch and of OpenMP; 0: all that the machine grants.
void use_threads(std::int64_t threads);

/// `batch.micro`, or what one trial of the model says.
MicroDecision choose_micro_batch(const Workload& work);

}  // namespace accrue::train
