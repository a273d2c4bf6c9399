#include <torch/optim/optimizer.h>

#include <unordered_set>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "accum/single_thread_guard.h"
#include "accum/torch_step.h"

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

Accumulator::StepFunction step_of(torch::optim::Optimizer& optimizer) {
  return [&optimizer](accum::MeanGradient&& gradient) { accum::step_by_grad(optimizer, gradient); };
}

}  // namespace

StepReport Accumulator::step(torch::optim::Optimizer& optimizer) {
  const accum::SingleThreadGuard::Call call(*thread_, "step");
  among_ranks<Error>([&] { check_covered(optimizer, *window_.buffer()); });
  return step(step_of(optimizer));
}

StepReport Accumulator::finish(torch::optim::Optimizer& optimizer) {
  const accum::SingleThreadGuard::Call call(*thread_, "finish");
  among_ranks<Error>([&] { check_covered(optimizer, *window_.buffer()); });
  return finish(step_of(optimizer));
}

}  // namespace accrue
