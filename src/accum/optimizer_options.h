#pragma once

#include <torch/optim/optimizer.h>

namespace accrue::accum {

/// If `own` is no longer what was `settled`, makes `inner` like it, and then `own` and `settled`
/// like `inner`. Of a type that is not libtorch's the learning rate alone is compared and set, if
/// it has one.
void settle_options(torch::optim::OptimizerOptions& own, torch::optim::OptimizerOptions& inner,
                    torch::optim::OptimizerOptions& settled);

}  // namespace accrue::accum
