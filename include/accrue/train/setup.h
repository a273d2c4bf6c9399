#pragma once

#include <cstdint>
#include <string>

#include "accrue/train/workload.h"

namespace accrue::train {

/// Sets the threads of libtorch and of OpenMP; 0: all that the machine grants.
void use_threads(std::int64_t threads);

struct MicroDecision {
  std::int64_t samples = 1;
  std::string reason;  ///< why so many, for people
};

/// `batch.micro`, or what one trial of the model says: its longest sample goes forward and backward
/// once. The model is left as it was, running statistics included.
MicroDecision choose_micro_batch(const Workload& work);

}  // namespace accrue::train
