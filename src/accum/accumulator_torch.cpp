#include <torch/optim/optimizer.h>

#include <unordered_set>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"

namespace accrue {
namespace {

void check_covered(const torch::optim::Optimizer& optimizer, const accum::GradientBuffer& buffer) {
  std::unordered_set<const c10::TensorImpl*> accumulated;
  for (const auto& entry : buffer.entries())
    accumulated.insert(entry.parameter.unsafeGetTensorImpl());
  std::size_t place = 0;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.requires_grad() && !accumulated.contains(parameter.unsafeGetTensorImpl()))
        throw usage_error(
            "step", "an optimizer of the accumulated parameters",
            "one whose parameter " + std::to_string(place) + " is trained but not accumulated here",
            "making the Accumulator from all parameters of the optimizer, once they "
            "require gradients");
      ++place;
    }
}

/// torch::optim reads `.grad` in the parameter's dtype. Where that is not the slot's, it gets a
/// copy for the duration of its step: one stated pass for each such parameter.
class NarrowGradients {
 public:
  explicit NarrowGradients(const accum::GradientBuffer& buffer) : buffer_(buffer) {
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
  static bool is_narrow(const accum::GradientBuffer::Entry& entry) {
    return !entry.staged && !accum::grad_can_view_slot(entry);
  }
  const accum::GradientBuffer& buffer_;
};

Accumulator::StepFunction step_of(torch::optim::Optimizer& optimizer) {
  return [&optimizer](accum::MeanGradient&& gradient) {
    gradient.materialize();
    const NarrowGradients narrow(gradient.buffer());
    optimizer.step();
  };
}

}  // namespace

StepReport Accumulator::step(torch::optim::Optimizer& optimizer) {
  among_ranks<Error>([&] { check_covered(optimizer, *window_.buffer()); });
  return step(step_of(optimizer));
}

StepReport Accumulator::finish(torch::optim::Optimizer& optimizer) {
  among_ranks<Error>([&] { check_covered(optimizer, *window_.buffer()); });
  return finish(step_of(optimizer));
}

}  // namespace accrue
