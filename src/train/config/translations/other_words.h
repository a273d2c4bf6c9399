#pragma once

#include <vector>

#include "train/config/key_builders.h"

namespace accrue::train {

/// fp16 by the names that precision.compute has not.
std::vector<Refused> half_precisions();
/// Optimizers whose names are near to a word of optim.kind, and which are not that one.
std::vector<Refused> other_optimizers();

}  // namespace accrue::train
