#include "train/run/batch_control.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "core/words.h"
#include "train/config/gradient_folding.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"
#include "train/run/noise_record.h"

namespace accrue::train {
namespace {

/// A window that fits in one micro-batch is run in two if decisions need its noise: every window
/// until this many were measured for a batch, then one window in so many.
constexpr std::int64_t windows_measured_first = 20, windows_between_probes = 8;

/// exp() of anything lower is 0, too. A decay of 0 has the logarithm -inf, which JSON lacks.
constexpr double least_log_decay = -1000;

/// Batches are whole multiples of an eighth of the stated one, or of a quarter; if that is not a
/// multiple of four, of single samples.
std::int64_t part_of(std::int64_t samples) {
  for (const std::int64_t parts : {8, 4})
    if (samples % parts == 0) return samples / parts;
  return 1;
}

double batch_of_config(const Config& config) { return static_cast<double>(stated_batch(config)); }

/// How the learning rate follows the batch. It goes with one that was changed by hand as it went
/// with the one that the run began with.
adapt::RateRule rate_rule(const Config& config) {
  if (batch_changes(config)) return config.adapt.lr_rule;
  switch (config.optim.scale_lr) {
    case optim::ScaleRule::none:
      return adapt::RateRule::none;
    case optim::ScaleRule::linear:
      return adapt::RateRule::linear;
    case optim::ScaleRule::sqrt:
      return adapt::RateRule::sqrt;
  }
  return adapt::RateRule::none;
}

}  // namespace

BatchControl::BatchControl(const RunContext& run, const TrainState& state)
    : run_(run),
      config_(run.work.config),
      state_(state),
      samples_(sample_facts(*run.work.data.train)),
      has_one_micro_batch_(!batch_changes(config_) || config_.batch.micro ||
                           !fixed_micro_batch_reason(config_).empty()),
      as_begun_(state.adapt.changes.empty() ? run.work.schedule : as_changing(run.work)),
      schedule_(run.work.schedule),
      total_(train::total_windows(config_, schedule_)),
      rates_(config_, make_horizon(run.plan), schedule_, schedule_, samples_, total_) {
  restore();
}

void BatchControl::restore() {
  std::vector<BatchChange> changes = changes_in_force();
  if (changes != changes_) enforce(std::move(changes));
}

std::vector<BatchChange> BatchControl::changes_in_force() const {
  std::vector<BatchChange> changes = state_.adapt.changes;
  std::erase_if(changes,
                [this](const BatchChange& change) { return change.window > state_.window; });
  return changes;
}

void BatchControl::enforce(std::vector<BatchChange> changes) {
  schedule_ = changes.empty() ? run_.work.schedule : with_changes(config_, as_begun_, changes);
  total_ = train::total_windows(config_, schedule_);
  rates_ = RunRates(config_, make_horizon(run_.plan), schedule_, as_begun_, samples_, total_);
  changes_ = std::move(changes);
}

Cadence BatchControl::cadence(const Duration& every, const char* key) const {
  if (!as_begun_.changing || every.unit == Duration::Unit::seconds)
    return {every, make_horizon(run_.plan), key};
  expect_countable(every, samples_, key);
  return {every, [this, unit = every.unit](std::int64_t step) {
            // Windows without weight are not steps.
            const std::int64_t windows = state_.window - state_.step + step;
            const auto& changing = schedule_.changing ? schedule_.changing : as_begun_.changing;
            return place_in(unit, config_, samples_, changing->place(windows));
          }};
}

bool BatchControl::is_probed(std::int64_t samples, std::int64_t most) const {
  // Several ranks show the noise by their differences.
  if (!adapt::measures_noise(config_.adapt.batch) || run_.ranks.are_many()) return false;
  if (samples < 2 || samples > most) return false;
  return state_.adapt.measured < windows_measured_first ||
         state_.window % windows_between_probes == 0;
}

std::int64_t BatchControl::micro_batch(std::int64_t samples, std::int64_t most) const {
  if (has_one_micro_batch_) return most;
  if (is_probed(samples, most)) return (samples + 1) / 2;
  if (samples <= most) return most;
  const std::int64_t parts = (samples + most - 1) / most;
  return (samples + parts - 1) / parts;
}

double BatchControl::batch_of(std::int64_t window) const {
  const auto behind = std::ranges::find_if(
      changes_, [&](const BatchChange& change) { return change.window > window; });
  if (behind != changes_.begin()) return static_cast<double>(std::prev(behind)->size);
  return static_cast<double>(batch_at(config_, samples_, schedule_.changing->place(window)));
}

/// The effective batch of the next window, divided as the planned one is.
EffectiveBatch BatchControl::batch_ahead() const {
  const EffectiveBatch& planned = run_.plan.effective;
  const double now = batch_of(state_.window);
  const std::int64_t each = config_.batch.tokens ? samples_.tokens_per_sample.value_or(0) : 1;
  const double of_mean_length =
      static_cast<double>(planned.samples()) * now / batch_of_config(config_);
  const std::int64_t samples = std::clamp<std::int64_t>(
      std::llround(each > 0 ? now / static_cast<double>(each) : of_mean_length), 1,
      schedule_.samples_per_epoch);
  std::vector<std::int64_t> micro_batches;
  for (const RankBatch& rank : planned.by_rank) micro_batches.push_back(rank.micro_batch);
  EffectiveBatch batch = divide_batch(samples, micro_batches);
  batch.samples_vary = planned.samples_vary;
  batch.tokens_vary = planned.tokens_vary;
  batch.tokens = batch.samples_vary ? std::llround(now)
                                    : std::llround(static_cast<double>(planned.tokens) *
                                                   static_cast<double>(samples) /
                                                   static_cast<double>(planned.samples()));
  return batch;
}

RunPlan BatchControl::plan_ahead() const {
  RunPlan plan = run_.plan;
  if (changes_.empty() || batch_changes(config_)) return plan;
  plan.effective = batch_ahead();
  plan.total_steps = total_;
  const batch::WindowSchedule even{.samples_per_epoch = schedule_.samples_per_epoch,
                                   .samples_per_window = plan.effective.samples(),
                                   .last = schedule_.last};
  plan.steps_per_epoch = even.windows_per_epoch();
  return plan;
}

/// The factor by which the rate follows the batch of the next window; none if it does not.
std::optional<double> BatchControl::rate_factor() const {
  const adapt::RateRule rule = rate_rule(config_);
  if (!may_change() || rule == adapt::RateRule::none) return std::nullopt;
  return adapt::rate_factor(rule, batch_of(state_.window), batch_of_config(config_),
                            noise_in_batch_units(state_.adapt));
}

double BatchControl::learning_rate() const {
  const std::optional<double> factor = rate_factor();
  return factor ? rates_.scaled_at(state_.window, state_.step, *factor)
                : rates_.at(state_.window, state_.step);
}

std::optional<optim::RateFall> BatchControl::rate_fall() const {
  return rates_.fall_at(state_.window, state_.step, rate_factor().value_or(1));
}

std::optional<double> BatchControl::beta2() const {
  if (!may_change() || config_.adapt.lr_rule == adapt::RateRule::none) return std::nullopt;
  return adapt::beta2_at(config_.optim.beta2, config_.adapt.lr_rule, batch_of(state_.window),
                         batch_of_config(config_));
}

void BatchControl::update(const WindowRun& window, std::int64_t samples, bool stepped,
                          const std::optional<NoiseReading>& reading, TrainState& state) const {
  if (stepped)
    if (const auto decay = beta2())
      state.adapt.log_decay = std::max(least_log_decay, state.adapt.log_decay + std::log(*decay));
  if (!reading) return;
  const std::int64_t units = config_.batch.tokens ? window.tokens : samples;
  add_reading(*reading, static_cast<double>(units), window.weight, state.adapt);
}

adapt::BatchBounds BatchControl::bounds() const {
  const BatchRange range = batch_range(config_);
  const std::int64_t sample =
      config_.batch.tokens ? std::max<std::int64_t>(1, samples_.tokens_per_sample.value_or(1)) : 1;
  const std::int64_t stated = stated_batch(config_) / sample;
  const std::int64_t micro = run_.plan.micro_batch;
  const std::int64_t epoch = schedule_.samples_per_epoch;
  // The stated batch is a whole multiple, so that nothing changes before a measurement.
  const std::int64_t quantum = has_one_micro_batch_ ? std::gcd(stated, micro) : part_of(stated);
  // One micro-batch shows no noise, and it cannot be split if micro-batches have one size.
  const std::int64_t least = has_one_micro_batch_ ? std::min(stated, 2 * micro) : 1;
  const auto units = [sample](std::int64_t samples) {
    return static_cast<double>(samples * sample);
  };
  adapt::BatchBounds bounds{.least = std::max(static_cast<double>(range.least), units(least)),
                            .most = static_cast<double>(range.most),
                            .quantum = units(quantum),
                            .one_pass = units(micro * run_.ranks.world())};
  bounds.most = std::max(units(stated), std::min(bounds.most, units(epoch)));
  return bounds;
}

std::optional<std::string> BatchControl::decide(TrainState& state) {
  restore();
  if (!adapt::measures_noise(config_.adapt.batch) || state.window >= total_) return std::nullopt;
  const double batch = batch_of(state.window);
  const adapt::BatchDecision decision =
      adapt::decide_batch(config_.adapt.batch, bounds(),
                          {.batch = batch,
                           .base_batch = batch_of_config(config_),
                           .noise = noise_in_batch_units(state_.adapt),
                           .windows_measured = state.adapt.measured,
                           .windows_wanted = windows_measured_first});
  if (decision.batch == batch) return std::nullopt;
  std::vector<BatchChange> changes = state.adapt.changes;
  changes.push_back({.window = state.window, .size = std::llround(decision.batch)});
  enforce(changes);
  state.adapt.changes = std::move(changes);
  state.adapt.measured = 0;
  return decision.reason + " (in " + (config_.batch.tokens ? "tokens" : "samples") + "; " +
         split_in_words() + ")";
}

std::optional<std::string> BatchControl::change_ahead() const {
  if (!may_change() || state_.window == 0 || state_.window >= total_) return std::nullopt;
  const BatchConfig& stated = config_.batch;
  const bool is_decided = adapt::measures_noise(config_.adapt.batch);
  const double before = batch_of(state_.window - 1), now = batch_of(state_.window);
  if (before == now || is_decided) return std::nullopt;
  const bool grows_each_step = stated.ramp_from && stated.ramp_by == RampShape::linear;
  if (grows_each_step && now != batch_of_config(config_)) return std::nullopt;
  const std::string why = changes_.empty() ? "" : ", changed by hand";
  return "from step " + digit_groups(state_.step + 1) + " on " + batch_in_words(now) +
         " in place of " + batch_in_words(before) + why + ": " + split_in_words();
}

std::string BatchControl::batch_in_words(double batch) const {
  return digit_groups(std::llround(batch)) + (config_.batch.tokens ? " tokens" : " samples");
}

/// "8 micro-batches of 4 samples", for the next window.
std::string BatchControl::split_in_words() const {
  std::int64_t samples = window(state_.window).size();
  if (!config_.batch.tokens || samples_.tokens_per_sample.value_or(0) > 0)  // not an epoch's rest
    samples = std::llround(batch_of(state_.window)) /
              (config_.batch.tokens ? *samples_.tokens_per_sample : 1);
  const std::int64_t most = run_.plan.micro_batch;
  if (run_.ranks.are_many()) return counted(samples, "sample");
  const std::int64_t micro =
      std::min(samples, is_probed(samples, most) ? most : micro_batch(samples, most));
  return counted((samples + micro - 1) / micro, "micro-batch") + " of " + counted(micro, "sample");
}

void BatchControl::report_length(StepReport& report) const {
  if (total_ != run_.plan.total_steps) report.total_steps = total_;
}

void BatchControl::report(const std::vector<std::string>& blocks, StepReport& report) const {
  report_noise(state_.adapt, blocks, report);
}

}  // namespace accrue::train
