#pragma once

#include <torch/optim/optimizer.h>

namespace accrue::accum {

/// If `own` differs from `settled`, copies it to `inner`, and then `inner` to `own` and
/// `settled`. For a type that is not libtorch's only the learning rate is compared and set, if it
/// has one.
void settle_options(torch::optim::OptimizerOptions& own, torch::optim::OptimizerOptions& inner,
                    torch::optim::OptimizerOptions& settled);

}  // namespace accrue::accum
