#include "accum/torch_step.h"

#include <torch/optim/optimizer.h>

namespace accrue::accum {
namespace {

/// torch::optim reads `.grad` in the parameter's dtype. Where that is not the slot's, it gets a
/// copy for the duration of its step: one stated pass for each such parameter.
class NarrowGradients {
 public:
  explicit NarrowGradients(const GradientBuffer& buffer) : buffer_(buffer) {
    for (const auto& entry : buffer_.entries())
      if (is_narrow(entry) && entry.slot->contributions > 0)
        entry.parameter.mutable_grad() = entry.slot->main.to(entry.parameter.scalar_type());
  }
  ~NarrowGradients() {
    for (const auto& entry : buffer_.entries())
      if (is_narrow(entry)) entry.parameter.mutable_grad().reset();
  }
  NarrowGradients(const NarrowGradients&) = delete;
  NarrowGradients& operator=(const NarrowGradients&) = delete;

 private:
  /// Staged slots have a `.grad` of the parameter's dtype once the gradient is materialized.
  static bool is_narrow(const GradientBuffer::Entry& entry) {
    return !entry.staged && !grad_can_view_slot(entry);
  }
  const GradientBuffer& buffer_;
};

}  // namespace

void take_torch_step(torch::optim::Optimizer& optimizer, MeanGradient& gradient) {
  gradient.materialize();
  if (auto* told = dynamic_cast<SeesClipping*>(&optimizer)) told->see_clipping(gradient.clipping());
  const NarrowGradients narrow(gradient.buffer());
  optimizer.step();
}

}  // namespace accrue::accum
