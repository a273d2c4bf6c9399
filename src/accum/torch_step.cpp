#include "accum/torch_step.h"

#include <torch/optim/optimizer.h>

#include "accum/slot_binding.h"

namespace accrue::accum {

MeanInGrad::MeanInGrad(MeanGradient& gradient)
    : buffer_(gradient.buffer()), shown_(gradient.show()) {}

MeanInGrad::~MeanInGrad() {
  for (const auto& entry : buffer_.entries())
    if (is_narrow(entry)) entry.parameter.mutable_grad().reset();
}

void show_to(const std::function<void(MeanGradient&)>& hook, MeanGradient& gradient) {
  const MeanInGrad shown(gradient);
  hook(gradient);
  gradient.changed();
}

void step_by_grad(torch::optim::Optimizer& optimizer, const MeanGradient& gradient) {
  if (auto* told = dynamic_cast<ClippingListener*>(&optimizer))
    told->see_clipping(gradient.clipping());
  optimizer.step();
}

void take_torch_step(torch::optim::Optimizer& optimizer, MeanGradient& gradient) {
  const MeanInGrad shown(gradient);
  step_by_grad(optimizer, gradient);
}

}  // namespace accrue::accum
