#include "train/workload/batch_changes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

std::int64_t stated_batch(const BatchConfig& batch) {
  return batch.tokens ? *batch.tokens : batch.samples.value_or(0);
}

/// Tokens of a sample if the batch is stated in them, 1 if it is stated in samples or samples
/// differ in length.
std::int64_t units_per_sample(const Config& config, const SampleFacts& samples) {
  if (!config.batch.tokens) return 1;
  return std::max<std::int64_t>(1, samples.tokens_per_sample.value_or(1));
}

/// The step of a linear ramp: whole micro-batches if their size is stated.
std::int64_t ramp_step(const Config& config, const SampleFacts& samples) {
  const bool has_length = !config.batch.tokens || samples.tokens_per_sample;
  return units_per_sample(config, samples) *
         (has_length ? config.batch.micro.value_or(1) : std::int64_t{1});
}

std::int64_t ramped(const Config& config, const SampleFacts& samples, double part) {
  const BatchConfig& batch = config.batch;
  const std::int64_t from = *batch.ramp_from, to = stated_batch(batch);
  if (part >= 1) return to;
  if (batch.ramp_by == RampShape::linear) {
    const std::int64_t step = ramp_step(config, samples);
    const double grown = part * static_cast<double>(to - from) / static_cast<double>(step);
    return from + static_cast<std::int64_t>(std::floor(grown)) * step;
  }
  std::int64_t doublings = 0;
  while (from << doublings < to) ++doublings;
  const auto done = static_cast<std::int64_t>(std::floor(part * static_cast<double>(doublings)));
  return std::min(to, from << done);
}

std::int64_t stage_at(const Config& config, const SampleFacts& samples,
                      const batch::WindowPlace& place) {
  std::int64_t size = stated_batch(config.batch);
  for (const BatchStage& stage : config.batch.schedule)
    if (place_in(stage.at.unit, config, samples, place) >= stage.at.value) size = stage.size;
  return size;
}

struct StatedSize {
  const char* key;
  std::int64_t size;
};

/// All batches in the config except the first.
std::vector<StatedSize> stated_sizes(const Config& config) {
  std::vector<StatedSize> sizes;
  for (const BatchStage& stage : config.batch.schedule)
    sizes.push_back({"batch.schedule", stage.size});
  if (config.batch.ramp_from) sizes.push_back({"batch.ramp.from", *config.batch.ramp_from});
  if (config.adapt.min) sizes.push_back({"adapt.min", *config.adapt.min});
  if (config.adapt.max) sizes.push_back({"adapt.max", *config.adapt.max});
  return sizes;
}

void check_places(const Config& config, const SampleFacts& samples) {
  for (const BatchStage& stage : config.batch.schedule)
    expect_countable(stage.at, samples, "batch.schedule");
  if (config.batch.ramp_over) expect_countable(*config.batch.ramp_over, samples, "batch.ramp.over");
}

void check_multiples(const Config& config, std::int64_t context) {
  batch::samples_of_tokens(stated_batch(config.batch), context);
  for (const auto& [key, size] : stated_sizes(config))
    if (size % context != 0)
      throw usage_error(key, "a multiple of the context of " + std::to_string(context) + " tokens",
                        std::to_string(size),
                        std::to_string(std::max<std::int64_t>(1, size / context) * context));
}

/// Throws unless samples have one length or are counted, as decisions on a batch need it.
void check_lengths(const Config& config, const data::Source& train) {
  if (config.adapt.is_on() && (config.batch.tokens || config.run.tokens))
    throw usage_error(
        "adapt.batch",
        "a batch in samples and a run in steps or epochs, as samples differ in length",
        config.batch.tokens ? "batch.tokens" : "run.tokens",
        "batch.samples with run.epochs, or batch.schedule");
  if (!config.batch.tokens) return;
  const std::int64_t least = batch_range(config).least;
  for (std::int64_t i = 0; i < train.size(); ++i)
    if (train.tokens(i) > least)
      throw usage_error("batch.schedule",
                        "batches of at least the longest sample's " +
                            std::to_string(train.tokens(i)) + " tokens (sample " +
                            std::to_string(i) + ")",
                        std::to_string(least), "a larger one, or shorter samples");
}

void check_sizes(const Config& config, const SampleFacts& samples, const data::Source& train) {
  check_places(config, samples);
  if (!samples.tokens_per_sample) {
    check_lengths(config, train);
  } else if (config.batch.tokens && *samples.tokens_per_sample > 0) {
    check_multiples(config, *samples.tokens_per_sample);
  }
}

batch::ChangingWindows::Draws draws_of(const Config& config, const SampleFacts& samples,
                                       const batch::Sampler& sampler,
                                       const std::shared_ptr<const data::Source>& train) {
  batch::ChangingWindows::Draws draws{.samples_per_epoch = samples.samples_per_epoch,
                                      .tokens_per_sample = samples.tokens_per_sample,
                                      .last = config.batch.last};
  if (!samples.tokens_per_sample)
    draws.tokens_of = [sampler, train](std::int64_t ordinal) {
      return train->tokens(sampler.sample(ordinal));
    };
  return draws;
}

std::string place_in_words(const Duration& at) {
  char text[64];
  switch (at.unit) {
    case Duration::Unit::steps:
      return "step " + digit_groups(static_cast<std::int64_t>(at.value));
    case Duration::Unit::tokens:
      return format_count(at.value) + " tokens";
    case Duration::Unit::percent:
      std::snprintf(text, sizeof text, "%g%% of the run", at.value);
      return text;
    default:
      std::snprintf(text, sizeof text, "epoch %g", at.value);
      return text;
  }
}

}  // namespace

double place_in(Duration::Unit unit, const Config& config, const SampleFacts& samples,
                const batch::WindowPlace& place) {
  const double epochs =
      static_cast<double>(place.begin) / static_cast<double>(samples.samples_per_epoch);
  const RunConfig& run = config.run;
  switch (unit) {
    case Duration::Unit::steps:
      return static_cast<double>(place.index);
    case Duration::Unit::tokens:
      return static_cast<double>(place.tokens);
    case Duration::Unit::epochs:
      return epochs;
    default:
      break;
  }
  if (run.steps) return 100 * static_cast<double>(place.index) / static_cast<double>(*run.steps);
  if (run.tokens) return 100 * static_cast<double>(place.tokens) / static_cast<double>(*run.tokens);
  return 100 * epochs / run.epochs.value_or(1);
}

void expect_countable(const Duration& duration, const SampleFacts& samples, const char* key) {
  if (duration.unit != Duration::Unit::tokens || samples.tokens_per_sample != 0) return;
  throw usage_error(key, "a place in steps, epochs or percent, since images have no tokens",
                    "tokens", "a number of steps");
}

bool batch_changes(const Config& config) {
  return config.batch.changes_as_stated() || config.adapt.is_on();
}

bool depends_on_run_length(const Config& config) {
  const auto is_part = [](const Duration& at) { return at.unit == Duration::Unit::percent; };
  const BatchConfig& batch = config.batch;
  return config.adapt.batch == adapt::BatchRule::seesaw ||
         (batch.ramp_over && is_part(*batch.ramp_over)) ||
         std::ranges::any_of(batch.schedule, is_part, &BatchStage::at);
}

batch::WindowBudget budget_of_batch(const Config& config, std::int64_t size) {
  batch::WindowBudget budget;
  (config.batch.tokens ? budget.tokens : budget.samples) = size;
  return budget;
}

SampleFacts sample_facts(const data::Source& train) {
  return {.samples_per_epoch = train.size(),
          .tokens_per_sample =
              train.image_shape() ? std::optional<std::int64_t>(0) : train.uniform_tokens()};
}

std::int64_t place_in_length(const Config& config, const batch::WindowPlace& place) {
  if (config.run.steps) return place.index;
  return config.run.tokens ? place.tokens : place.begin;
}

optim::LearningRate rate_over_length(const Config& config, const SampleFacts& samples) {
  const RunConfig& run = config.run;
  const auto per_epoch = static_cast<double>(samples.samples_per_epoch);
  const auto each = static_cast<double>(samples.tokens_per_sample.value_or(0));
  const auto batch = static_cast<double>(stated_batch(config.batch));
  double step = 1;  // a step of the stated batch, in the unit of the length
  Horizon horizon;
  if (run.steps) {
    const double in_samples = batch / static_cast<double>(units_per_sample(config, samples));
    horizon = {.total_steps = *run.steps,
               .tokens_per_step = in_samples * each,
               .steps_per_epoch = per_epoch / in_samples};
  } else if (run.tokens) {
    step = config.batch.tokens ? batch : batch * std::max(1.0, each);
    horizon = {
        .total_steps = *run.tokens, .tokens_per_step = 1, .steps_per_epoch = per_epoch * each};
  } else {
    step = config.batch.tokens ? batch / std::max(1.0, each) : batch;
    horizon = {.total_steps = std::llround(run.epochs.value_or(0) * per_epoch),
               .tokens_per_step = each > 0 ? 1 / each : 0,
               .steps_per_epoch = per_epoch};
  }
  optim::LearningRate rate = make_learning_rate(config, horizon);
  if (config.optim.schedule.warmup.unit == Duration::Unit::steps)
    rate.warmup = std::llround(static_cast<double>(rate.warmup) * step);
  if (rate.version == optim::ScheduleVersion::min_in_last_step)
    rate.total_steps = std::max<std::int64_t>(1, horizon.total_steps - std::llround(step) + 1);
  return rate;
}

adapt::BatchDecision seesaw_at(const Config& config, const SampleFacts& samples,
                               const batch::WindowPlace& place) {
  // If a schedule ends at 0, the last doubling is that of the largest batch.
  constexpr double least_rate_left = 1e-12;
  const optim::LearningRate rate = rate_over_length(config, samples);
  const auto base = static_cast<double>(stated_batch(config.batch));
  const BatchRange range = batch_range(config);
  const std::int64_t epoch = samples.samples_per_epoch * units_per_sample(config, samples);
  adapt::BatchFacts facts{.batch = base, .base_batch = base};
  if (const std::int64_t at = place_in_length(config, place); at >= rate.warmup && rate.peak > 0)
    facts.rate_left = std::max(least_rate_left, rate.at(at) / rate.peak);
  return adapt::decide_batch(adapt::BatchRule::seesaw,
                             {.least = static_cast<double>(range.least),
                              .most = static_cast<double>(std::min(range.most, epoch))},
                             facts);
}

std::int64_t batch_at(const Config& config, const SampleFacts& samples,
                      const batch::WindowPlace& place) {
  if (config.adapt.batch == adapt::BatchRule::seesaw)
    return std::llround(seesaw_at(config, samples, place).batch);
  if (!config.batch.ramp_from) return stage_at(config, samples, place);
  const Duration& over = *config.batch.ramp_over;
  return ramped(config, samples, place_in(over.unit, config, samples, place) / over.value);
}

BatchRange batch_range(const Config& config) {
  const BatchConfig& batch = config.batch;
  const std::int64_t stated = stated_batch(batch);
  if (config.adapt.is_on()) {
    constexpr std::int64_t shrinks = 4, grows = 16;
    return {.least = config.adapt.min.value_or(std::max<std::int64_t>(1, stated / shrinks)),
            .most = config.adapt.max.value_or(stated * grows)};
  }
  if (batch.ramp_from) return {.least = *batch.ramp_from, .most = stated};
  BatchRange range{.least = stated, .most = stated};
  for (const BatchStage& stage : batch.schedule) {
    range.least = std::min(range.least, stage.size);
    range.most = std::max(range.most, stage.size);
  }
  return range;
}

std::optional<std::int64_t> largest_stated_samples(const Config& config,
                                                   const SampleFacts& samples) {
  if (config.batch.tokens && !samples.tokens_per_sample) return std::nullopt;
  return batch_range(config).most / units_per_sample(config, samples);
}

batch::WindowSchedule changing_schedule(const Config& config, const batch::Sampler& sampler,
                                        const std::shared_ptr<const data::Source>& train) {
  const SampleFacts samples = sample_facts(*train);
  check_sizes(config, samples, *train);
  auto windows = std::make_shared<const batch::ChangingWindows>(
      draws_of(config, samples, sampler, train),
      [config, samples](const batch::WindowPlace& place) {
        return budget_of_batch(config, batch_at(config, samples, place));
      });
  const std::int64_t most = batch_range(config).most;
  const std::int64_t by_tokens =
      samples.tokens_per_sample
          ? most / std::max<std::int64_t>(1, *samples.tokens_per_sample)
          : std::max<std::int64_t>(1, most / std::max<std::int64_t>(1, windows->tokens(0)) *
                                          windows->window(0).size());
  return {.samples_per_epoch = samples.samples_per_epoch,
          .samples_per_window = std::min(train->size(), config.batch.tokens ? by_tokens : most),
          .last = config.batch.last,
          .tokens_per_sample = samples.tokens_per_sample.value_or(0),
          .changing = std::move(windows)};
}

batch::WindowSchedule with_changes(const Config& config, batch::WindowSchedule schedule,
                                   const std::vector<BatchChange>& changes) {
  if (!schedule.changing) return schedule;
  for (const BatchChange& change : changes)
    schedule.changing =
        schedule.changing->changed_from(change.window, budget_of_batch(config, change.size));
  return schedule;
}

batch::WindowSchedule as_changing(const Workload& work) {
  if (work.schedule.changing) return work.schedule;
  return changing_schedule(work.config, make_sampler(work.config, *work.data.train),
                           work.data.train);
}

batch::WindowSchedule with_changes(const Workload& work, const std::vector<BatchChange>& changes) {
  return changes.empty() ? work.schedule : with_changes(work.config, as_changing(work), changes);
}

std::int64_t windows_of_run(const Workload& work, const std::vector<BatchChange>& changes) {
  return total_windows(work.config, with_changes(work, changes));
}

std::optional<std::int64_t> batch_in_unit_of(const Config& begun, const Config& stated,
                                             const SampleFacts& samples) {
  if (!batch_may_change(begun) || !batch_may_change(stated)) return std::nullopt;
  if (begun.batch.tokens.has_value() == stated.batch.tokens.has_value())
    return stated_batch(stated);
  const std::int64_t each = samples.tokens_per_sample.value_or(0);
  if (each == 0) return std::nullopt;
  return begun.batch.tokens ? stated_batch(stated) * each
                            : batch::samples_of_tokens(stated_batch(stated), each);
}

Config with_batch_of(Config config, const Config& other) {
  config.batch.tokens = other.batch.tokens;
  config.batch.samples = other.batch.samples;
  return config;
}

std::string key_of_batch(const Config& config) {
  return config.batch.tokens ? "batch.tokens" : "batch.samples";
}

std::int64_t stated_batch(const Config& config) { return stated_batch(config.batch); }

std::string changes_by_hand_in_words(const Config& config,
                                     const std::vector<BatchChange>& changes) {
  if (changes.empty() || batch_changes(config)) return {};
  std::string text = "the run began with " + digit_groups(stated_batch(config)) +
                     (config.batch.tokens ? " tokens" : " samples") + "; changed by hand: ";
  for (const BatchChange& change : changes)
    text += (change == changes.front() ? "" : ", ") + digit_groups(change.size) + " from step " +
            digit_groups(change.window + 1) + " on";
  return text;
}

std::string batch_changes_in_words(const Config& config) {
  const BatchConfig& batch = config.batch;
  const std::string unit = batch.tokens ? " tokens" : " samples";
  if (config.adapt.batch == adapt::BatchRule::seesaw)
    return "from " + digit_groups(stated_batch(batch)) + " to at most " +
           digit_groups(batch_range(config).most) + unit +
           ", doubled where the learning rate would be halved";
  if (config.adapt.is_on())
    return "from " + digit_groups(batch_range(config).least) + " to " +
           digit_groups(batch_range(config).most) + unit + ", as the gradient's noise asks for (" +
           std::string(adapt::batch_rule_words.of(config.adapt.batch)) + ")";
  if (batch.ramp_from)
    return "from " + digit_groups(*batch.ramp_from) + " to " + digit_groups(stated_batch(batch)) +
           unit + (batch.ramp_by == RampShape::linear ? ", linearly" : ", by doubling") +
           ", until " + place_in_words(*batch.ramp_over);
  std::string text;
  if (!batch.schedule.empty() && batch.schedule.front().at.value > 0)
    text = digit_groups(stated_batch(batch)) + unit;
  for (const BatchStage& stage : batch.schedule)
    text += (text.empty() ? digit_groups(stage.size) + unit
                          : ", " + digit_groups(stage.size) + " from " + place_in_words(stage.at));
  return text;
}

}  // namespace accrue::train
