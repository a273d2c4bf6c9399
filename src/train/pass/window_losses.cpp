#include "train/pass/window_losses.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/models/trainable.h"

namespace accrue::train {

void WindowLosses::count(std::span<const batch::Range> micro_batches, const Fetch& fetch) {
  weights_.clear();
  totals_.reset();
  noted_.clear();
  noted_by_all_.reset();
  const std::vector<models::LossHead> heads = model_.losses();
  if (!is_counted(heads)) return;
  take_weights(micro_batches, fetch);
  add_up();
}

bool WindowLosses::is_counted(const std::vector<models::LossHead>& heads) const {
  const auto without =
      std::ranges::find_if(heads, [](const models::LossHead& head) { return !head.weight; });
  if (without == heads.end()) return needs_total_weight_ || heads.size() > 1;
  if (!needs_total_weight_) return false;
  throw usage_error("loss '" + without->name + "'",
                    "LossHead::weight, since gradients are folded into the optimizer, divided by "
                    "the window's total weight",
                    "none", "telling it from the labels, or memory.gradients = \"buffer\"");
}

std::optional<double> WindowLosses::total_weight() const {
  if (!totals_) return std::nullopt;
  return totals_->totals().at(totals_->reference());
}

void WindowLosses::split_from(std::size_t position, std::span<const batch::Range> micro_batches,
                              const Fetch& fetch) {
  if (!totals_) return;
  weights_.resize(position);
  take_weights(micro_batches, fetch);
}

void WindowLosses::take_weights(std::span<const batch::Range> micro_batches, const Fetch& fetch) {
  const std::vector<models::LossHead> heads = model_.losses();
  for (const batch::Range range : micro_batches) {
    const batch::MicroBatch micro = fetch(range);
    std::vector<double>& weights = weights_.emplace_back();
    for (const models::LossHead& head : heads) weights.push_back(head.weight(micro));
  }
}

PassOptions WindowLosses::pass_options() const {
  if (!totals_) return {};
  return {.factors = totals_->factors(), .reference = totals_->reference()};
}

void WindowLosses::note(std::int64_t index, const HeadSums& heads) {
  if (heads.sums.size() > 1 || !heads.measures.empty()) noted_[index] = heads;
}

std::map<std::string, double> WindowLosses::means() const {
  return means_of(model_.losses(), noted_by_all_ ? *noted_by_all_ : noted());
}

HeadSums WindowLosses::noted() const {
  HeadSums sums;
  for (const auto& [index, heads] : noted_) sums += heads;
  return sums;
}

std::vector<double> WindowLosses::sums() const {
  if (!totals_) return {};
  const std::size_t losses = totals_->size();
  HeadSums noted_here = noted();
  noted_here.sums.resize(losses, 0);
  noted_here.weights.resize(losses, 0);
  std::vector<double> sums(losses, 0);
  for (const std::vector<double>& weights : weights_)
    for (std::size_t loss = 0; loss < weights.size(); ++loss) sums[loss] += weights[loss];
  sums.insert(sums.end(), noted_here.sums.begin(), noted_here.sums.end());
  sums.insert(sums.end(), noted_here.weights.begin(), noted_here.weights.end());
  return sums;
}

bool WindowLosses::take_sums(const std::vector<double>& of_all) {
  if (!totals_) return false;
  const auto losses = static_cast<std::ptrdiff_t>(totals_->size());
  const auto sums = of_all.begin() + losses, weights = sums + losses;
  noted_by_all_ = HeadSums{.sums = {sums, weights}, .weights = {weights, weights + losses}};
  return take_totals({of_all.begin(), sums});
}

bool WindowLosses::quarantine(std::int64_t index) {
  noted_.erase(index);
  if (!totals_) return false;
  weights_.at(static_cast<std::size_t>(index)).clear();
  return !noted_by_all_ && add_up();
}

/// Returns whether the losses' factors changed. It sums from the start, so that a window has the
/// same totals to the bit whether a micro-batch was quarantined or was never there.
bool WindowLosses::add_up() {
  const std::vector<models::LossHead> heads = model_.losses();
  std::vector<double> totals(heads.size(), 0);
  for (const std::vector<double>& weights : weights_)
    for (std::size_t head = 0; head < weights.size(); ++head) totals[head] += weights[head];
  return take_totals(std::move(totals));
}

bool WindowLosses::take_totals(std::vector<double> totals) {
  std::vector<double> coefficients;
  for (const models::LossHead& head : model_.losses()) coefficients.push_back(head.coefficient);
  LossTotals now(std::move(totals), std::move(coefficients));
  const bool changed = !totals_ || totals_->factors() != now.factors();
  totals_ = std::move(now);
  return changed;
}

void WindowLosses::check(const MicroRef& ref, const std::vector<double>& seen) const {
  if (!totals_) return;
  const std::vector<double>& expected = weights_.at(static_cast<std::size_t>(ref.index));
  if (seen == expected) return;
  const auto head = static_cast<std::size_t>(
      std::distance(seen.begin(), std::ranges::mismatch(seen, expected).in1));
  throw usage_error("loss '" + model_.losses().at(head).name + "' of " + describe(ref),
                    "the weight that LossHead::weight told, " + std::to_string(expected.at(head)),
                    std::to_string(seen.at(head)), "counting the same terms in both");
}

}  // namespace accrue::train
