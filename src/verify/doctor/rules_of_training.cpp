#include <algorithm>
#include <cmath>

#include "accrue/core/units.h"
#include "verify/doctor/finding_rules.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

using Found = std::optional<Finding>;

/// Adam's first steps have the size of the learning rate whatever the gradient: above this rate
/// they are known to harm transformers without a warm-up.
constexpr double large_first_rate = 1e-3;

Horizon horizon_of(const RunFacts& facts) {
  return {.total_steps = facts.total_steps,
          .tokens_per_step = facts.batch_tokens,
          .steps_per_epoch = static_cast<double>(facts.steps_per_epoch)};
}

double warmup_steps(const RunFacts& facts) {
  return static_cast<double>(
      to_steps(facts.config.optim.schedule.warmup, horizon_of(facts), "optim.schedule.warmup"));
}

/// The value of a usual warm-up: a percent of a run of fewer than 100 steps is no step.
std::string usual_warmup(const RunFacts& facts) {
  constexpr std::int64_t steps_of_percents = 100, share_of_short_runs = 10;
  if (facts.total_steps >= steps_of_percents) return "\"1%\"";
  return std::to_string(std::max<std::int64_t>(1, facts.total_steps / share_of_short_runs));
}

Found long_warmup(const RunFacts& facts) {
  const double warmup = warmup_steps(facts), total = static_cast<double>(facts.total_steps);
  if (warmup <= total / 2) return {};
  const Duration& stated = facts.config.optim.schedule.warmup;
  const bool plausible_tokens = stated.unit == Duration::Unit::steps && facts.batch_tokens > 0 &&
                                stated.value > total && stated.value >= facts.batch_tokens;
  return Finding{warmup >= total ? "warmup-longer-than-run" : "warmup-long",
                 Severity::warning,
                 "the warm-up takes " + number(warmup) + " of " + number(total) + " steps" +
                     (warmup >= total ? ": optim.lr is never reached" : ""),
                 plausible_tokens ? "\"" + number(stated.value) + " tokens\", if tokens were meant"
                                  : "a shorter one, such as " + usual_warmup(facts),
                 {{"warmup_steps", warmup}, {"total_steps", total}}};
}

Found no_warmup(const RunFacts& facts) {
  const auto& optim = facts.config.optim;
  if (!is_adam(facts) || optim.lr < large_first_rate || warmup_steps(facts) > 0 ||
      !facts.config.model.from.empty())
    return {};
  return Finding{"warmup-none",
                 Severity::advice,
                 "no warm-up at lr " + number(optim.lr) +
                     ": Adam's first steps have that size whatever the gradient",
                 "optim.schedule.warmup = " + usual_warmup(facts),
                 {{"lr", optim.lr}}};
}

Found floor_of_rate(const RunFacts& facts) {
  const auto& optim = facts.config.optim;
  const double floor = optim.schedule.min_lr;
  if (optim.schedule.kind == optim::ScheduleKind::constant) return {};
  if (floor < optim.lr / 2) return {};
  return Finding{"min-lr-high",
                 Severity::advice,
                 "the schedule falls from " + number(optim.lr) + " to " + number(floor) +
                     " only: min_lr is absolute, not a share",
                 "a tenth of optim.lr is usual",
                 {{"lr", optim.lr}, {"min_lr", floor}}};
}

/// docs/numerics.md, "AdamA": between Adam's second moment and 1/K of it.
Found split_second_moment(const RunFacts& facts) {
  if (facts.config.optim.kind != train::OptimizerKind::adama || facts.micro_batches < 2) return {};
  const auto count = static_cast<double>(facts.micro_batches);
  return Finding{"adama-second-moment",
                 Severity::note,
                 "AdamA's second moment takes the squares of " + number(count) +
                     " micro-batch gradients, not the square of their sum: steps are up to " +
                     number(std::sqrt(count)) +
                     " times AdamW's where the micro-batches agree, and change with batch.micro",
                 "a learning rate found with this batch.micro, or optim.kind = \"adamw\"",
                 {{"micro_batches", count}, {"largest_step_ratio", std::sqrt(count)}}};
}

Found no_labels(const RunFacts& facts) {
  if (facts.first_terms == 0) return {};
  const double share = facts.first_weight / facts.first_terms;
  if (share >= 0.05) return {};
  const bool none = facts.first_weight == 0;
  return Finding{none ? "labels-none" : "labels-few",
                 none ? Severity::warning : Severity::advice,
                 none ? "no label of the first batch counts: a step on it changes nothing"
                      : "only " + percent(share) + " of the first batch's targets count",
                 "looking at the labels (-100 is ignored) and at prompts that fill the context",
                 {{"weight", facts.first_weight}, {"targets", facts.first_terms}}};
}

Found dropped_window(const RunFacts& facts) {
  if (facts.config.batch.last != batch::LastWindow::drop || facts.train_samples == 0) return {};
  const double used = static_cast<double>(facts.steps_per_epoch * facts.batch_samples);
  const double dropped = std::max(0.0, 1 - used / static_cast<double>(facts.train_samples));
  if (dropped < 0.01) return {};
  return Finding{"last-window-dropped",
                 Severity::warning,
                 "batch.last = \"drop\" leaves out " + percent(dropped) + " of every epoch",
                 "batch.last = \"weighted\": a short last batch is weighted rightly",
                 {{"share", dropped}}};
}

Found batch_beyond_epoch(const RunFacts& facts) {
  if (facts.batch_samples <= facts.train_samples) return {};
  return Finding{"batch-larger-than-epoch",
                 Severity::warning,
                 "the batch asks for " + std::to_string(facts.batch_samples) +
                     " samples, the training data have " + std::to_string(facts.train_samples) +
                     ": each step takes all of them",
                 "a smaller batch, or more data",
                 {{"batch_samples", static_cast<double>(facts.batch_samples)},
                  {"train_samples", static_cast<double>(facts.train_samples)}}};
}

}  // namespace

bool is_adam(const RunFacts& facts) {
  using train::OptimizerKind;
  const OptimizerKind kind = facts.config.optim.kind;
  return kind == OptimizerKind::adamw || kind == OptimizerKind::adam ||
         kind == OptimizerKind::adama;
}

std::vector<Rule> schedule_rules() {
  return {long_warmup, no_warmup, floor_of_rate, split_second_moment};
}
std::vector<Rule> data_rules() { return {no_labels, dropped_window, batch_beyond_epoch}; }

}  // namespace accrue::proof
