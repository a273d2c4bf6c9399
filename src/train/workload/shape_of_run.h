#pragma once

#include "accrue/train/config.h"

namespace accrue::train {

/// Throws a usage Error if keys of the shape that `stated` has beside a run
/// (ModelConfig::shape_beside_run) are not as in `of_run`, which has the run's shape. It names each
/// with both values.
void expect_shape_of_run(const Config& stated, const Config& of_run);

}  // namespace accrue::train
