#include "head_losses.h"

#include <optional>

#include "accrue/accum/closed_slots.h"
#include "accrue/core/error.h"

namespace accrue::train {

HeadLosses::HeadLosses(models::Trainable& model, PassOptions options)
    : heads_(model.losses()), parameters_(model.parameters()), options_(std::move(options)) {
  if (!options_.factors.empty() && options_.factors.size() != heads_.size())
    throw usage_error("sum losses of a micro-batch",
                      std::to_string(heads_.size()) + " factors, one for each loss",
                      std::to_string(options_.factors.size()), "LossTotals of all losses");
}

HeadLosses::Total HeadLosses::total(const models::Activations& output,
                                    const batch::MicroBatch& micro,
                                    const ForwardContext& context) const {
  Total total;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const double factor = factor_of(i);
    if (factor == 0) {
      total.weights.push_back(heads_[i].weight ? heads_[i].weight(micro) : 0);
      continue;
    }
    const Loss loss = run(heads_[i], factor, output, micro, context);
    if (!total.sum.defined()) total.weight = loss.weight;
    expect_one_denominator(heads_[i], loss.weight, total.weight);
    total.weights.push_back(loss.weight);
    const at::Tensor part = factor == 1 ? loss.sum : loss.sum * factor;
    total.sum = total.sum.defined() ? total.sum + part : part;
  }
  if (!options_.factors.empty()) total.weight = total.weights.at(options_.reference);
  if (!total.sum.defined()) total.sum = at::zeros({}, at::kDouble);
  return total;
}

double HeadLosses::factor_of(std::size_t head) const {
  return options_.factors.empty() ? heads_[head].coefficient : options_.factors[head];
}

/// A head may write its weights' gradients in its forward pass, where its sum is not scaled.
Loss HeadLosses::run(const models::LossHead& head, double factor, const models::Activations& output,
                     const batch::MicroBatch& micro, const ForwardContext& context) const {
  std::optional<accum::ClosedSlots> closed;
  if (factor * options_.loss_scale != 1) closed.emplace(parameters_);
  return head.forward(output, micro, context);
}

void HeadLosses::expect_one_denominator(const models::LossHead& head, double weight,
                                        double first) const {
  if (!options_.factors.empty() || weight == first) return;
  throw usage_error("sum losses of a micro-batch", "losses with one denominator",
                    "weights " + std::to_string(first) + " and " + std::to_string(weight) + " (" +
                        head.name + ")",
                    "LossHead::weight for every loss, so that their total weights are known "
                    "before the first backward");
}

}  // namespace accrue::train
