#include <algorithm>
#include <cmath>

#include "accrue/core/units.h"
#include "verify/doctor/finding_rules.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

using Found = std::optional<Finding>;

/// From this factor on a batch is far from the noise scale; early in training both change.
constexpr double far = 8;
/// Losses that rise by this fraction of their first value are not noise.
constexpr double risen = 0.1;

std::string unit_of(const RunFacts& facts) {
  return facts.config.batch.tokens || facts.batch_tokens > 0 ? " tokens" : " samples";
}

/// The progress per token at `batch`, relative to many small batches (arXiv:1812.06162, 2.7).
double progress(double batch, double noise_scale) { return 1 / (1 + batch / noise_scale); }

Found batch_above_noise(const RunFacts& facts) {
  if (!facts.noise || !facts.noise->value || !facts.noise->high) return {};
  const double scale = *facts.noise->value, batch = facts.noise_batch;
  if (batch <= far * *facts.noise->high) return {};
  return Finding{"batch-above-noise",
                 Severity::advice,
                 "the batch of " + format_count(batch) + unit_of(facts) + " is " +
                     number(batch / scale) + " times the noise scale of the first steps (" +
                     format_count(scale) + "): they make " + percent(progress(batch, scale)) +
                     " of the progress per token that small batches make",
                 "a batch that grows: batch.ramp, or adapt.batch = \"critical\"; the noise scale "
                 "grows in training, and accrue bench --sweep-batch says what a batch gains",
                 {{"batch", batch}, {"noise_scale", scale}}};
}

Found batch_below_noise(const RunFacts& facts) {
  if (!facts.noise || facts.noise_batch <= 0 || facts.noise->low < far * facts.noise_batch)
    return {};
  const double batch = facts.noise_batch, low = facts.noise->low;
  return Finding{"batch-below-noise",
                 Severity::advice,
                 "the noise scale of the first steps is at least " + format_count(low) +
                     unit_of(facts) + ", " + number(low / batch) +
                     " times the batch: accumulating more of them would take fewer steps for "
                     "about the same number of tokens",
                 "a batch of " + format_count(low / 2) + unit_of(facts) +
                     " with the learning rate scaled to it, which costs no memory",
                 {{"batch", batch}, {"noise_scale_low", low}}};
}

/// Adam's steps do not grow with the gradient, so a rate proportional to the batch overshoots.
Found rate_rule_of_batch(const RunFacts& facts) {
  const auto& optim = facts.config.optim;
  if (optim.scale_lr != optim::ScaleRule::linear || !is_adam(facts) || !optim.base_batch) return {};
  const auto& stated = facts.config.batch;
  const auto batch = static_cast<double>(stated.tokens.value_or(stated.samples.value_or(0)));
  const double ratio = batch / static_cast<double>(*optim.base_batch);
  if (ratio < far) return {};
  return Finding{"lr-rule-of-batch",
                 Severity::warning,
                 "scale_lr = \"linear\" makes the learning rate " + number(ratio) +
                     " times optim.lr: of Adam the square root of the batch's ratio is meant (" +
                     number(std::sqrt(ratio)) + " times)",
                 "optim.scale_lr = \"sqrt\", or accrue bench --sweep-lr",
                 {{"ratio", ratio}, {"lr", optim.lr * ratio}}};
}

Found divergence(const RunFacts& facts) {
  if (!facts.first_steps_are_finite)
    return Finding{"first-steps-diverge",
                   Severity::warning,
                   "step " + std::to_string(facts.first_losses.size() + 1) +
                       " of the first steps has no finite loss or gradient",
                   "a lower optim.lr or a longer warm-up; accrue bench --sweep-lr looks for a rate",
                   {{"steps", static_cast<double>(facts.first_losses.size())}}};
  if (facts.first_losses.size() < 4) return {};
  const double first = facts.first_losses.front(), last = facts.first_losses.back();
  if (last <= first + risen * std::abs(first)) return {};
  return Finding{"first-steps-rise",
                 Severity::warning,
                 "the loss rises from " + number(first) + " to " + number(last) + " in the first " +
                     std::to_string(facts.first_losses.size()) + " steps",
                 "a lower optim.lr or a longer warm-up; accrue bench --sweep-lr looks for a rate",
                 {{"first_loss", first}, {"last_loss", last}}};
}

}  // namespace

std::vector<Rule> batch_rules() {
  return {divergence, batch_above_noise, batch_below_noise, rate_rule_of_batch};
}

}  // namespace accrue::proof
