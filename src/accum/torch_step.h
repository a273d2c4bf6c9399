#pragma once

#include "accrue/accum/mean_gradient.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::accum {

/// Has an optimizer of torch::optim take a step by the mean gradient, which it finds in `.grad`, in
/// the parameters' dtype; of what the window did not use `.grad` is undefined.
void take_torch_step(torch::optim::Optimizer& optimizer, MeanGradient& gradient);

}  // namespace accrue::accum
