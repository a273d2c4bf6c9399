#include "accrue/train/forward_backward.h"

#include <cmath>
#include <optional>

#include "accrue/accum/closed_slots.h"
#include "accrue/core/error.h"

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

/// The heads' losses on one output.
class Losses {
 public:
  Losses(models::Trainable& model, const PassOptions& options)
      : heads_(model.losses()), parameters_(model.parameters()), options_(options) {
    if (!options.factors.empty() && options.factors.size() != heads_.size())
      throw usage_error("sum losses of a micro-batch",
                        std::to_string(heads_.size()) + " factors, one for each loss",
                        std::to_string(options.factors.size()), "LossTotals of all losses");
  }

  /// Their sum by their factors.
  at::Tensor total(const models::Activations& output, const batch::MicroBatch& micro,
                   const ForwardContext& context, PassResult& result) {
    at::Tensor total;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      const double factor = factor_of(i);
      if (factor == 0) {
        result.weights.push_back(heads_[i].weight ? heads_[i].weight(micro) : 0);
        continue;
      }
      const Loss loss = run(heads_[i], factor, output, micro, context);
      if (!total.defined()) result.weight = loss.weight;
      expect_one_denominator(heads_[i], loss.weight, result.weight);
      result.weights.push_back(loss.weight);
      const at::Tensor part = factor == 1 ? loss.sum : loss.sum * factor;
      total = total.defined() ? total + part : part;
    }
    if (!options_.factors.empty()) result.weight = result.weights.at(options_.reference);
    return total.defined() ? total : at::zeros({}, at::kDouble);
  }

 private:
  double factor_of(std::size_t head) const {
    return options_.factors.empty() ? heads_[head].coefficient : options_.factors[head];
  }

  /// A head may write its weights' gradients in its forward pass, where its sum is not scaled.
  Loss run(const models::LossHead& head, double factor, const models::Activations& output,
           const batch::MicroBatch& micro, const ForwardContext& context) const {
    std::optional<accum::ClosedSlots> closed;
    if (factor * options_.loss_scale != 1) closed.emplace(parameters_);
    return head.forward(output, micro, context);
  }

  void expect_one_denominator(const models::LossHead& head, double weight, double first) const {
    if (!options_.factors.empty() || weight == first) return;
    throw usage_error("sum losses of a micro-batch", "losses with one denominator",
                      "weights " + std::to_string(first) + " and " + std::to_string(weight) + " (" +
                          head.name + ")",
                      "LossHead::weight for every loss, so that their total weights are known "
                      "before the first backward");
  }

  std::vector<models::LossHead> heads_;
  NamedParameters parameters_;
  const PassOptions& options_;
};

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
  PassResult result;
  const at::Tensor total = Losses(model, options).total(output, micro, context, result);
  result.loss_sum = total.item<double>();
  result.finite = std::isfinite(result.loss_sum);
  if (!result.finite) return result;
  if (total.requires_grad())
    torch::autograd::backward({total}, {at::full({}, options.loss_scale, total.options())});
  run_backward(cuts, gradients_of(output));
  return result;
}

}  // namespace accrue::train
