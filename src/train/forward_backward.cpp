#include "forward_backward.h"

#include <cmath>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

/// A segment's run: its input as a leaf of its own graph, and what it made of it.
struct Cut {
  at::Tensor input;
  at::Tensor output;
};

at::Tensor as_leaf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().requires_grad_(true) : tensor;
}

at::Tensor run_segments(std::vector<models::Segment>& segments, const batch::MicroBatch& micro,
                        const ForwardContext& context, std::vector<Cut>& cuts) {
  at::Tensor activation;
  for (models::Segment& segment : segments) {
    Cut cut;
    cut.input = as_leaf(activation);
    cut.output = segment.forward(cut.input, micro, context);
    activation = cut.output;
    cuts.push_back(std::move(cut));
  }
  return activation;
}

Loss total_loss(std::vector<models::LossHead>& heads, const at::Tensor& output,
                const batch::MicroBatch& micro, const ForwardContext& context) {
  Loss total;
  for (models::LossHead& head : heads) {
    Loss loss = head.forward(output, micro, context);
    if (total.sum.defined() && loss.weight != total.weight) {
      throw usage_error("sum losses of a micro-batch", "losses with one denominator",
                        "weights " + std::to_string(total.weight) + " and " +
                            std::to_string(loss.weight) + " (" + head.name + ")",
                        "a model with one loss");
    }
    total.sum = total.sum.defined() ? total.sum + loss.sum : loss.sum;
    total.weight = loss.weight;
  }
  return total;
}

void run_backward(std::vector<Cut>& cuts, at::Tensor gradient) {
  while (!cuts.empty()) {
    const Cut cut = std::move(cuts.back());
    cuts.pop_back();
    if (!gradient.defined() || !cut.output.requires_grad()) return;
    torch::autograd::backward({cut.output}, {gradient});
    gradient = cut.input.defined() ? cut.input.grad() : at::Tensor();
  }
}

}  // namespace

PassResult forward_backward(models::Trainable& model, const batch::MicroBatch& micro,
                            const ForwardContext& context) {
  std::vector<models::Segment> segments = model.segments();
  std::vector<models::LossHead> heads = model.losses();
  std::vector<Cut> cuts;
  const at::Tensor output = as_leaf(run_segments(segments, micro, context, cuts));
  const Loss loss = total_loss(heads, output, micro, context);

  PassResult result{.loss_sum = loss.sum.item<double>(), .weight = loss.weight};
  result.finite = std::isfinite(result.loss_sum);
  if (!result.finite) return result;
  if (loss.sum.requires_grad()) torch::autograd::backward({loss.sum});
  run_backward(cuts, output.grad());
  return result;
}

}  // namespace accrue::train
