#include "train/workload/run_rates.h"

#include <cmath>

#include "accrue/core/error.h"
#include "train/workload/workload.h"

namespace accrue::train {

RunRates::RunRates(const Config& config, const Horizon& horizon,
                   const batch::WindowSchedule& schedule, const batch::WindowSchedule& as_begun,
                   const SampleFacts& samples, std::int64_t windows)
    : config_(config),
      schedule_(schedule),
      as_begun_(as_begun),
      samples_(samples),
      rate_(make_learning_rate(config, horizon)) {
  if (schedule.changing == nullptr) return;
  counts_steps_ = config.run.steps.has_value() && !config.batch.changes_as_stated();
  if (config.adapt.batch == adapt::BatchRule::seesaw) {
    rate_ = rate_over_length(config, samples);
  } else if (!counts_steps_) {
    count_window_contents(windows);
  }
}

void RunRates::count_window_contents(std::int64_t windows) {
  const Duration& warmup = config_.optim.schedule.warmup;
  const auto whole = static_cast<double>(held_before(windows));
  rate_.total_steps = rate_.version == optim::ScheduleVersion::min_in_last_step
                          ? held_before(windows - 1) + 1
                          : held_before(windows);
  rate_.warmup = warmup.unit == Duration::Unit::percent
                     ? static_cast<std::int64_t>(std::llround(warmup.value / 100 * whole))
                     : held_within(warmup);
}

double RunRates::at(std::int64_t window, std::int64_t step) const {
  if (config_.adapt.batch == adapt::BatchRule::seesaw) return of_seesaw(window);
  if (counts_steps_) return rate_.at(step);
  return rate_.at(held_before(window), held_before(window + 1));
}

double RunRates::scaled_at(std::int64_t window, std::int64_t step, double factor) const {
  const double rate = at(window, step), floor = rate_.min_lr;
  return rate <= floor ? rate : floor + factor * (rate - floor);
}

std::optional<optim::RateFall> RunRates::fall_at(std::int64_t window, std::int64_t step,
                                                 double factor) const {
  // A floor of 0 is the same share of every peak.
  if (rate_.version == optim::ScheduleVersion::min_in_last_step || rate_.min_lr == 0)
    return std::nullopt;
  std::optional<double> left;
  if (config_.adapt.batch == adapt::BatchRule::seesaw) {
    const double rate = of_seesaw(window), way = rate_.peak - rate_.min_lr;
    if (has_seesaw_begun(window)) left = way > 0 ? (rate - rate_.min_lr) / way : 0;
  } else {
    left = rate_.left(counts_steps_ ? step : held_before(window));
  }
  if (!left) return std::nullopt;
  return optim::RateFall{.peak = rate_.peak, .floor = rate_.min_lr, .left = *left * factor};
}

bool RunRates::has_seesaw_begun(std::int64_t window) const {
  return seesaw_at(config_, samples_, schedule_.changing->place(window)).rate_left.has_value();
}

double RunRates::of_seesaw(std::int64_t window) const {
  const batch::WindowPlace place = schedule_.changing->place(window);
  if (const auto part = seesaw_at(config_, samples_, place).rate_left)
    return std::max(rate_.min_lr, rate_.peak * *part);
  const batch::WindowPlace next = schedule_.changing->place(window + 1);
  return rate_.at(place_in_length(config_, place), place_in_length(config_, next));
}

std::int64_t RunRates::held_before(const batch::ChangingWindows& windows, std::int64_t window) {
  const batch::WindowPlace place = windows.place(window);
  return windows.counts_tokens() ? place.tokens : place.begin;
}

/// The amount of data in the windows within a duration.
std::int64_t RunRates::held_within(const Duration& duration) const {
  switch (duration.unit) {
    case Duration::Unit::tokens:
      if (!schedule_.changing->counts_tokens()) break;
      return static_cast<std::int64_t>(std::llround(duration.value));
    case Duration::Unit::epochs:
      if (duration.value <= 0) return 0;
      return held_before(*as_begun_.changing, as_begun_.windows_of_epochs(duration.value));
    case Duration::Unit::steps:
      return held_before(*as_begun_.changing, static_cast<std::int64_t>(duration.value));
    default:
      break;
  }
  throw usage_error("optim.schedule.warmup", "a duration that this run counts", "another one",
                    "a number of steps");
}

}  // namespace accrue::train
