#include <algorithm>

#include "accrue/core/units.h"
#include "train/limits/limit_words.h"
#include "verify/doctor/finding_rules.h"
#include "verify/text.h"

namespace accrue::proof {
namespace {

using Found = std::optional<Finding>;

/// Differences in speed below this are random variation.
constexpr double worth_it = 1.05;
constexpr double long_run_seconds = 1800;
/// With more frequent checkpoints than this the run mostly writes.
constexpr double busy_seconds = 5;

std::optional<double> seconds_per_step(const RunFacts& facts) {
  if (!facts.speed || facts.speed->samples_per_second <= 0) return {};
  const auto samples = static_cast<double>(std::min(facts.batch_samples, facts.train_samples));
  return samples / facts.speed->samples_per_second;
}

Found larger_micro_batch(const RunFacts& facts) {
  if (facts.micro_batches < 2 || !facts.speed || !facts.larger_speed) return {};
  const Speed &now = *facts.speed, &larger = *facts.larger_speed;
  const double gain = larger.samples_per_second / now.samples_per_second;
  if (larger.micro_batch <= now.micro_batch || gain < worth_it) return {};
  const bool whole = larger.micro_batch >= facts.batch_samples;
  return Finding{"micro-batch-small",
                 Severity::advice,
                 "micro-batches of " + std::to_string(larger.micro_batch) + " fit and are " +
                     number(gain) + " times as fast as those of " +
                     std::to_string(now.micro_batch) +
                     (whole ? ": this batch needs no accumulation" : ""),
                 train::micro_batch_advice(facts.config, std::to_string(larger.micro_batch)),
                 {{"micro_batch", static_cast<double>(now.micro_batch)},
                  {"samples_per_second", now.samples_per_second},
                  {"larger_micro_batch", static_cast<double>(larger.micro_batch)},
                  {"larger_samples_per_second", larger.samples_per_second},
                  {"gain", gain}}};
}

Found slow_precision(const RunFacts& facts) {
  if (!facts.bf16_samples_per_second || !facts.fp32_samples_per_second) return {};
  const double fp32 = *facts.fp32_samples_per_second, bf16 = *facts.bf16_samples_per_second;
  const bool is_bf16 = facts.config.precision.compute == models::Compute::bf16;
  const double gain = is_bf16 ? fp32 / bf16 : bf16 / fp32;
  if (gain < worth_it) return {};
  const std::vector<std::pair<std::string, double>> evidence{
      {"fp32_samples_per_second", fp32},
      {"bf16_samples_per_second", bf16},
      {"gain", gain},
      {"bf16_instructions", facts.bf16_instructions ? 1.0 : 0.0}};
  if (is_bf16)
    return Finding{"bf16-slower", Severity::warning,
                   "fp32 is " + number(gain) + " times as fast as bf16 on this machine",
                   "precision.compute = \"fp32\"", evidence};
  return Finding{"bf16-faster", Severity::advice,
                 "bf16 is " + number(gain) +
                     " times as fast as fp32 on this machine; masters and sums stay fp32",
                 "precision.compute = \"bf16\"", evidence};
}

Found evaluation(const RunFacts& facts) {
  const auto& run = facts.config.run;
  if (facts.val_samples == 0)
    return Finding{"eval-never",
                   Severity::advice,
                   "no validation data: nothing shows whether the model learns or memorises",
                   "data.val, or data.val_fraction = 0.01",
                   {}};
  const Horizon horizon{.total_steps = facts.total_steps,
                        .tokens_per_step = facts.batch_tokens,
                        .steps_per_epoch = static_cast<double>(facts.steps_per_epoch)};
  double steps = static_cast<double>(facts.total_steps);
  if (run.eval_every && run.eval_every->unit != Duration::Unit::seconds)
    steps = static_cast<double>(to_steps(*run.eval_every, horizon, "run.eval_every"));
  const bool timed = run.eval_every && run.eval_every->unit == Duration::Unit::seconds;
  if (timed && seconds_per_step(facts)) steps = run.eval_every->value / *seconds_per_step(facts);
  const bool only_at_the_end = steps >= static_cast<double>(facts.total_steps);
  if (!only_at_the_end || facts.total_steps < 2) return {};
  return Finding{"eval-only-at-end",
                 Severity::advice,
                 "the validation data are looked at once, when the run ends",
                 "run.eval_every = \"10%\"",
                 {{"total_steps", static_cast<double>(facts.total_steps)}}};
}

Found checkpoints(const RunFacts& facts) {
  const std::optional<double> step = seconds_per_step(facts);
  if (!step) return {};
  const Duration& every = facts.config.run.checkpoint_every;
  const double run = *step * static_cast<double>(facts.total_steps);
  const Horizon horizon{.total_steps = facts.total_steps,
                        .tokens_per_step = facts.batch_tokens,
                        .steps_per_epoch = static_cast<double>(facts.steps_per_epoch)};
  const double between =
      every.unit == Duration::Unit::seconds
          ? every.value
          : *step * static_cast<double>(to_steps(every, horizon, "run.checkpoint_every"));
  const std::vector<std::pair<std::string, double>> evidence{
      {"seconds_between", between}, {"run_seconds", run}, {"seconds_per_step", *step}};
  if (between >= run && run >= long_run_seconds)
    return Finding{"checkpoint-never", Severity::warning,
                   "the run takes about " + format_duration(run) +
                       ", and its first checkpoint would be its last",
                   "run.checkpoint_every = \"10 min\"", evidence};
  if (between < busy_seconds && run > 60)
    return Finding{"checkpoint-often", Severity::advice,
                   "a checkpoint about every " + format_duration(between),
                   "run.checkpoint_every = \"10 min\"", evidence};
  return {};
}

}  // namespace

Finding finding_of(const LimitFact& fact) {
  const std::string limit = in_words(fact.limit);
  if (!fact.reading)
    return {"limit", Severity::note, limit + "; the command is not run here", "", {}};
  const std::optional<double>& value = fact.reading->value;
  if (!value)
    return {"limit-unreadable",
            Severity::error,
            limit + ", which cannot be read: " + fact.reading->trouble,
            "a file that begins with a number, or the limit left out of run.limits",
            {}};
  return {"limit",
          Severity::note,
          limit + "; now " + in_words(fact.limit, *value) +
              (is_beyond(fact.limit, *value) ? ", so that it is met" : ""),
          "",
          {{"value", *value}}};
}

std::vector<Rule> speed_rules() { return {larger_micro_batch, slow_precision}; }
std::vector<Rule> run_rules() { return {evaluation, checkpoints}; }

}  // namespace accrue::proof
