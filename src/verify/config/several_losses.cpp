#include "verify/config/several_losses.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::proof {
namespace {

bool tell_weights(const std::vector<models::LossHead>& heads) {
  return std::ranges::all_of(
      heads, [](const models::LossHead& head) { return static_cast<bool>(head.weight); });
}

LossTotals totals_from(const std::vector<models::LossHead>& heads, std::vector<double> weights) {
  std::vector<double> coefficients;
  for (const models::LossHead& head : heads) coefficients.push_back(head.coefficient);
  return {std::move(weights), std::move(coefficients)};
}

void add_weights(const std::vector<models::LossHead>& heads, const batch::MicroBatch& micro,
                 std::vector<double>& weights) {
  if (micro.is_empty()) return;
  for (std::size_t i = 0; i < heads.size(); ++i) weights[i] += heads[i].weight(micro);
}

}  // namespace

std::optional<LossTotals> loss_totals(models::Model& model, const data::Loader& loader,
                                      const Parts& parts) {
  const std::vector<models::LossHead> heads = model.losses();
  if (heads.size() < 2 || !tell_weights(heads)) return std::nullopt;
  std::vector<double> weights(heads.size(), 0);
  for (const batch::Range part : parts) add_weights(heads, loader.fetch(part), weights);
  return totals_from(heads, std::move(weights));
}

std::optional<LossTotals> loss_totals(models::Model& model, const batch::MicroBatch& micro) {
  const std::vector<models::LossHead> heads = model.losses();
  if (heads.size() < 2 || !tell_weights(heads)) return std::nullopt;
  std::vector<double> weights(heads.size(), 0);
  add_weights(heads, micro, weights);
  return totals_from(heads, std::move(weights));
}

train::PassOptions pass_options(const std::optional<LossTotals>& totals, double weighting) {
  if (!totals) return {.weighting = weighting};
  return {.factors = totals->factors(), .reference = totals->reference(), .weighting = weighting};
}

Loss loss_of(models::Model& model, const batch::MicroBatch& micro, const ForwardContext& context,
             const std::optional<LossTotals>& totals, double weighting) {
  const models::Activations output = models::run_segments(model, micro, context);
  const std::vector<models::LossHead> heads = model.losses();
  Loss total;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Loss loss = heads[i].forward(output, micro, context, 1);
    const double factor = totals ? totals->factors()[i] : heads[i].coefficient;
    const at::Tensor part = loss.sum * (factor * weighting);
    total.sum = total.sum.defined() ? total.sum + part : part;
    if (!totals || i == totals->reference()) total.weight = loss.weight * weighting;
  }
  return total;
}

}  // namespace accrue::proof
