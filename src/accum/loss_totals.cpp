#include "accrue/accum/loss_totals.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "accrue/core/error.h"

namespace accrue {
namespace {

void check(const std::vector<double>& totals, const std::vector<double>& coefficients) {
  for (const double total : totals)
    if (!std::isfinite(total) || total < 0)
      throw usage_error("total weights", "finite weights >= 0", std::to_string(total),
                        "the number of terms of each loss in the whole window");
  for (const double coefficient : coefficients)
    if (!std::isfinite(coefficient))
      throw usage_error("loss coefficients", "finite numbers", std::to_string(coefficient),
                        "what each loss's mean counts in the total");
  if (totals.empty() || totals.size() != coefficients.size())
    throw usage_error("total weights", "one per loss, and as many coefficients or none",
                      std::to_string(totals.size()) + " totals and " +
                          std::to_string(coefficients.size()) + " coefficients",
                      "one of each for every loss");
}

}  // namespace

LossTotals::LossTotals(std::vector<double> totals, std::vector<double> coefficients)
    : totals_(std::move(totals)), coefficients_(std::move(coefficients)) {
  if (coefficients_.empty()) coefficients_.assign(totals_.size(), 1);
  check(totals_, coefficients_);
  derive_factors();
}

void LossTotals::derive_factors() {
  const auto has_weight = [](double total) { return total > 0; };
  const auto reference = std::ranges::find_if(totals_, has_weight);
  reference_ = reference == totals_.end()
                   ? 0
                   : static_cast<std::size_t>(std::distance(totals_.begin(), reference));
  factors_.assign(totals_.size(), 0);
  for (std::size_t i = 0; i < totals_.size(); ++i)
    if (has_weight(totals_[i])) factors_[i] = coefficients_[i] * (totals_[reference_] / totals_[i]);
}

Loss LossTotals::combine(const std::vector<Loss>& losses) const {
  if (losses.size() != size())
    throw usage_error("combine losses", std::to_string(size()) + ", as many as their total weights",
                      std::to_string(losses.size()), "one Loss{sum, weight} for each");
  Loss total{.sum = {}, .weight = losses[reference_].weight};
  for (std::size_t i = 0; i < size(); ++i) {
    if (factors_[i] == 0) continue;
    const at::Tensor part = factors_[i] == 1 ? losses[i].sum : losses[i].sum * factors_[i];
    total.sum = total.sum.defined() ? total.sum + part : part;
  }
  if (!total.sum.defined()) total.sum = at::zeros({}, at::kDouble);
  return total;
}

bool LossTotals::quarantine(const std::vector<double>& weights) {
  const std::vector<double> before = factors_;
  for (std::size_t i = 0; i < size(); ++i) totals_[i] = std::max(0.0, totals_[i] - weights.at(i));
  derive_factors();
  return factors_ != before;
}

}  // namespace accrue
