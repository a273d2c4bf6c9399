#pragma once

#include <functional>
#include <memory>

#include "accrue/accum/mean_gradient.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::accum {

/// An optimizer that receives, before each step, the factor by which its gradient was clipped.
class ClippingListener {
 public:
  virtual ~ClippingListener() = default;
  virtual void see_clipping(double clipping) = 0;
};

/// Shows the mean gradient in `.grad` during its lifetime, in the parameters' dtype, for readers
/// that know nothing of sums and scales. A parameter that the window did not use has an undefined
/// `.grad`. If the dtype is not the sum's (fp16, bf16), `.grad` is a copy that is removed with this
/// object: one documented pass per parameter. Staged slots keep theirs.
class MeanInGrad {
 public:
  explicit MeanInGrad(MeanGradient& gradient);
  ~MeanInGrad();
  MeanInGrad(const MeanInGrad&) = delete;
  MeanInGrad& operator=(const MeanInGrad&) = delete;

 private:
  const GradientBuffer& buffer_;
  std::shared_ptr<MeanGradient::Shown> shown_;
};

/// Calls `hook` while the mean gradient is in `.grad`, and takes over what it wrote there.
void show_to(const std::function<void(MeanGradient&)>& hook, MeanGradient& gradient);

/// Makes an optimizer of torch::optim step with the mean gradient, which is already in `.grad`.
void step_by_grad(torch::optim::Optimizer& optimizer, const MeanGradient& gradient);

/// Makes an optimizer of torch::optim step with the mean gradient.
void take_torch_step(torch::optim::Optimizer& optimizer, MeanGradient& gradient);

}  // namespace accrue::accum
