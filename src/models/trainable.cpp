#include "accrue/models/trainable.h"

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

void add(Loss& total, const Loss& loss, const std::string& name) {
  if (loss.weight != total.weight)
    throw usage_error("evaluate", "losses of equal weight, which share one mean",
                      name + " with weight " + std::to_string(loss.weight) + " beside " +
                          std::to_string(total.weight),
                      "evaluating each loss by itself");
  total.sum = total.sum + loss.sum;
}

}  // namespace

Loss evaluate(Trainable& model, const batch::MicroBatch& micro, const ForwardContext& context) {
  const at::NoGradGuard no_grad;
  at::Tensor activations;
  for (const Segment& segment : model.segments())
    activations = segment.forward(activations, micro, context);
  Loss total;
  for (const LossHead& head : model.losses()) {
    const Loss loss = head.forward(activations, micro, context);
    if (total.sum.defined()) {
      add(total, loss, head.name);
    } else {
      total = loss;
    }
  }
  return total;
}

std::int64_t parameter_count(const Trainable& model) {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : model.parameters()) count += parameter.tensor.numel();
  return count;
}

}  // namespace accrue::models
