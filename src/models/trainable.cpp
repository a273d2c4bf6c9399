#include "accrue/models/trainable.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "kernels/blocks/block_matrix.h"

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

at::Tensor normalise(const BatchNorm& layer, const at::Tensor& x, const ForwardContext& context) {
  if (!context.training) return normalise_by_running(layer, x);
  return normalise_by_micro_batch(context.rerun ? without_running_statistics(layer) : layer, x);
}

std::optional<double> correct_of(const LossHead& head, const Loss& loss, const Activations& output,
                                 const batch::MicroBatch& micro) {
  if (head.correct) return head.correct(output, micro);
  const auto found = std::find(head.measures.begin(), head.measures.end(), accuracy_measure);
  if (found == head.measures.end()) return std::nullopt;
  return loss.measures.at(static_cast<std::size_t>(found - head.measures.begin()));
}

}  // namespace

Activations run_segment(const Segment& segment, const Activations& input,
                        const batch::MicroBatch& micro, const ForwardContext& context) {
  if (segment.batch_norms.empty()) return segment.forward(input, micro, context);
  Activations normalised = input;
  for (const BatchNormSite& site : segment.batch_norms) {
    at::Tensor& x = normalised.at(site.activation);
    x = normalise(site.layer, x, context);
  }
  return segment.forward(normalised, micro, context);
}

Activations run_segments(Trainable& model, const batch::MicroBatch& micro,
                         const ForwardContext& context) {
  const std::vector<Segment> chain = model.segments();
  Activations activations;
  memory::for_parts(
      chain.size(),
      [&](std::size_t place) {
        const Segment& segment = chain[place];
        return segment.weights ? segment.weights() : std::vector<at::Tensor>();
      },
      [&](std::size_t place) {
        activations = run_segment(chain[place], activations, micro, context);
      });
  return activations;
}

Evaluated evaluate_output(const std::vector<LossHead>& heads, const Activations& output,
                          const batch::MicroBatch& micro, const ForwardContext& context) {
  const at::NoGradGuard no_grad;
  Evaluated result;
  if (micro.is_empty()) {
    result.losses.assign(heads.size(), Loss{.sum = at::zeros({}, at::kDouble), .weight = 0});
    return result;
  }
  for (const LossHead& head : heads) {
    result.losses.push_back(head.forward(output, micro, context, 1));
    if (!result.correct) result.correct = correct_of(head, result.losses.back(), output, micro);
  }
  return result;
}

Evaluated evaluate_losses(Trainable& model, const batch::MicroBatch& micro,
                          const ForwardContext& context) {
  const at::NoGradGuard no_grad;
  return evaluate_output(model.losses(),
                         micro.is_empty() ? Activations() : run_segments(model, micro, context),
                         micro, context);
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
  for (const NamedParameter& parameter : model.parameters())
    count += kernels::element_count(parameter.tensor);
  return count;
}

}  // namespace accrue::models
