#include "verify/config/several_losses.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::proof {
namespace {

/// `count_all(count)` calls `count` with each micro-batch.
template <class CountAll>
std::optional<LossTotals> totals_over(models::Model& model, const CountAll& count_all) {
  const std::vector<models::LossHead> heads = model.losses();
  const bool tell_weights = std::ranges::all_of(
      heads, [](const models::LossHead& head) { return static_cast<bool>(head.weight); });
  if (heads.size() < 2 || !tell_weights) return std::nullopt;
  std::vector<double> weights(heads.size(), 0), coefficients;
  for (const models::LossHead& head : heads) coefficients.push_back(head.coefficient);
  count_all([&](const batch::MicroBatch& micro) {
    if (micro.is_empty()) return;
    for (std::size_t i = 0; i < heads.size(); ++i) weights[i] += heads[i].weight(micro);
  });
  return LossTotals{std::move(weights), std::move(coefficients)};
}

}  // namespace

std::optional<LossTotals> loss_totals(models::Model& model, const data::Loader& loader,
                                      const Parts& parts) {
  return totals_over(model, [&](const auto& count) {
    for (const batch::Range part : parts) count(loader.fetch(part));
  });
}

std::optional<LossTotals> loss_totals(models::Model& model, const batch::MicroBatch& micro) {
  return totals_over(model, [&](const auto& count) { count(micro); });
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
