#pragma once

#include "accrue/accum/mean_gradient.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::accum {

/// An optimizer that is told, before each step, by how much its gradient was clipped.
class SeesClipping {
 public:
  virtual ~SeesClipping() = default;
  virtual void see_clipping(double clipping) = 0;
};

/// Has an optimizer of torch::optim take a step by the mean gradient, which it finds in `.grad`, in
/// the parameters' dtype; of what the window did not use `.grad` is undefined.
void take_torch_step(torch::optim::Optimizer& optimizer, MeanGradient& gradient);

}  // namespace accrue::accum
