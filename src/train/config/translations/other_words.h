#pragma once

#include <vector>

#include "train/config/key_builders.h"

namespace accrue::train {

/// Half precision by its names, which precision.compute has not.
std::vector<Refused> half_precisions();
/// Optimizers whose names are near to a word of optim.kind, and which are not that one.
std::vector<Refused> other_optimizers();

}  // namespace accrue::train
