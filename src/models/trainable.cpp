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

Activations run_segment(const Segment& segment, const Activations& input,
                        const batch::MicroBatch& micro, const ForwardContext& context) {
  if (segment.batch_norms.empty()) return segment.forward(input, micro, context);
  Activations normalised = input;
  for (const BatchNormSite& site : segment.batch_norms) {
    at::Tensor& x = normalised.at(site.activation);
    x = context.training ? normalise_by_micro_batch(site.layer, x)
                         : normalise_by_running(site.layer, x);
  }
  return segment.forward(normalised, micro, context);
}

Evaluated evaluate_losses(Trainable& model, const batch::MicroBatch& micro,
                          const ForwardContext& context) {
  const at::NoGradGuard no_grad;
  Activations activations;
  for (const Segment& segment : model.segments())
    activations = run_segment(segment, activations, micro, context);
  Evaluated result;
  for (const LossHead& head : model.losses()) {
    result.losses.push_back(head.forward(activations, micro, context));
    if (head.correct && !result.correct) result.correct = head.correct(activations, micro);
  }
  return result;
}

Loss evaluate(Trainable& model, const batch::MicroBatch& micro, const ForwardContext& context) {
  const std::vector<Loss> losses = evaluate_losses(model, micro, context).losses;
  const std::vector<LossHead> heads = model.losses();
  Loss total;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (i == 0) {
      total = losses[i];
    } else {
      add(total, losses[i], heads[i].name);
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
