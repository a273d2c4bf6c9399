#include "accrue/train/forward_backward.h"

#include <cmath>

#include "head_losses.h"

namespace accrue::train {
namespace {

/// A segment's run: its input as a leaf of its own graph, and what it made of it.
struct Cut {
  models::Activations input;
  models::Activations output;
};

models::Activations as_leaves(const models::Activations& activations) {
  models::Activations leaves;
  for (const at::Tensor& tensor : activations)
    leaves.push_back(tensor.detach().requires_grad_(true));
  return leaves;
}

models::Activations run_segments(std::vector<models::Segment>& segments,
                                 const batch::MicroBatch& micro, const ForwardContext& context,
                                 std::vector<Cut>& cuts) {
  models::Activations activations;
  for (models::Segment& segment : segments) {
    Cut cut;
    cut.input = as_leaves(activations);
    cut.output = models::run_segment(segment, cut.input, micro, context);
    activations = cut.output;
    cuts.push_back(std::move(cut));
  }
  return activations;
}

models::Activations gradients_of(const models::Activations& leaves) {
  models::Activations gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
  return gradients;
}

/// Gradients may be undefined where an output was not used.
void run_backward(std::vector<Cut>& cuts, models::Activations gradients) {
  while (!cuts.empty()) {
    const Cut cut = std::move(cuts.back());
    cuts.pop_back();
    std::vector<at::Tensor> roots, upstream;
    for (std::size_t i = 0; i < cut.output.size(); ++i) {
      if (!gradients[i].defined() || !cut.output[i].requires_grad()) continue;
      roots.push_back(cut.output[i]);
      upstream.push_back(gradients[i]);
    }
    if (roots.empty()) return;
    torch::autograd::backward(roots, upstream);
    gradients = gradients_of(cut.input);
  }
}

}  // namespace

PassResult forward_backward(models::Trainable& model, const batch::MicroBatch& micro,
                            const ForwardContext& context, const PassOptions& options) {
  std::vector<models::Segment> segments = model.segments();
  std::vector<Cut> cuts;
  const models::Activations output = as_leaves(run_segments(segments, micro, context, cuts));
  const HeadLosses::Total total = HeadLosses(model, options).total(output, micro, context);
  PassResult result{
      .loss_sum = total.sum.item<double>(), .weight = total.weight, .weights = total.weights};
  result.finite = std::isfinite(result.loss_sum);
  if (!result.finite) return result;
  if (total.sum.requires_grad())
    torch::autograd::backward({total.sum}, {at::full({}, options.loss_scale, total.sum.options())});
  run_backward(cuts, gradients_of(output));
  return result;
}

}  // namespace accrue::train
