#include "train/run/batch_control.h"

#include <algorithm>
#include <cmath>

#include "core/words.h"
#include "train/config/gradient_folding.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"

namespace accrue::train {
namespace {

/// What one micro-batch could take is run in two, where decisions need its noise: every window
/// until so many were measured of a batch, then every so-manieth.
constexpr std::int64_t windows_measured_first = 20, windows_between_probes = 8;

/// Batches are whole multiples of this part of the stated one, where samples allow it.
constexpr double sizes_of_a_batch = 8;

double stated_batch(const Config& config) {
  return static_cast<double>(config.batch.tokens ? *config.batch.tokens : *config.batch.samples);
}

void add(const std::optional<adapt::NoiseEstimate>& estimate, adapt::NoiseAverage::State& state) {
  if (!estimate) return;
  adapt::NoiseAverage average = adapt::NoiseAverage::restored(state);
  average.add(*estimate);
  state = average.state();
}

std::optional<adapt::NoiseScale> scale_of(const adapt::NoiseAverage::State& state) {
  return adapt::NoiseAverage::restored(state).scale();
}

bool uses_noise(const Config& config) {
  return adapt::measures_noise(config.adapt.batch) ||
         config.adapt.lr_rule == adapt::RateRule::adascale;
}

}  // namespace

BatchControl::BatchControl(const RunContext& run, const TrainState& state)
    : run_(run),
      config_(run.work.config),
      state_(state),
      samples_(sample_facts(*run.work.data.train)),
      has_one_micro_batch_(!batch_changes(config_) || config_.batch.micro ||
                           !fixed_micro_batch_reason(config_).empty()),
      schedule_(run.work.schedule),
      total_(train::total_windows(config_, schedule_)),
      rates_(config_, make_horizon(run.plan), schedule_, samples_, total_) {
  restore();
}

void BatchControl::restore() {
  schedule_ = run_.work.schedule;
  if (!state_.adapt.changes.empty()) enforce(state_.adapt.changes);
}

void BatchControl::enforce(const std::vector<BatchChange>& changes) {
  schedule_ = with_changes(config_, schedule_, changes);
  total_ = train::total_windows(config_, schedule_);
  rates_ = RunRates(config_, make_horizon(run_.plan), schedule_, samples_, total_);
}

bool BatchControl::is_probed(std::int64_t samples, std::int64_t most) const {
  // Several ranks show the noise between them.
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
      state_.adapt.changes, [&](const BatchChange& change) { return change.window > window; });
  if (behind != state_.adapt.changes.begin()) return static_cast<double>(std::prev(behind)->size);
  return static_cast<double>(batch_at(config_, samples_, schedule_.changing->place(window)));
}

double BatchControl::learning_rate() const {
  const double rate = rates_.at(state_.window, state_.step);
  if (!may_change() || config_.adapt.lr_rule == adapt::RateRule::none) return rate;
  return rate * adapt::rate_factor(config_.adapt.lr_rule, batch_of(state_.window),
                                   stated_batch(config_), noise_in_batch_units());
}

std::optional<double> BatchControl::beta2() const {
  if (!may_change() || config_.adapt.lr_rule == adapt::RateRule::none) return std::nullopt;
  return adapt::beta2_at(config_.optim.beta2, config_.adapt.lr_rule, batch_of(state_.window),
                         stated_batch(config_));
}

void BatchControl::take_in(const WindowRun& window, std::int64_t samples, bool stepped,
                           const std::optional<NoiseReading>& reading, TrainState& state) const {
  AdaptState& adapt = state.adapt;
  if (stepped)
    if (const auto decay = beta2()) adapt.log_decay += std::log(*decay);
  if (!reading) return;
  add(reading->total, adapt.noise);
  add(reading->in_geometry, adapt.in_geometry);
  adapt.blocks.resize(reading->blocks.size());
  for (std::size_t i = 0; i < reading->blocks.size(); ++i) add(reading->blocks[i], adapt.blocks[i]);
  adapt.measured += 1;
  adapt.units += static_cast<double>(config_.batch.tokens ? window.tokens : samples);
  adapt.weight += window.weight;
}

std::optional<adapt::NoiseScale> BatchControl::noise_in_batch_units() const {
  const AdaptState& adapt = state_.adapt;
  if (!(adapt.weight > 0)) return std::nullopt;
  const auto noise = scale_of(adapt.in_geometry.windows > 0 ? adapt.in_geometry : adapt.noise);
  if (!noise) return std::nullopt;
  return adapt::in_units(*noise, adapt.units / adapt.weight);
}

adapt::BatchBounds BatchControl::bounds() const {
  const BatchRange range = batch_range(config_);
  const double sample =
      config_.batch.tokens
          ? static_cast<double>(std::max<std::int64_t>(1, samples_.tokens_per_sample.value_or(1)))
          : 1;
  const double micro = sample * static_cast<double>(run_.plan.micro_batch);
  const double part = std::floor(stated_batch(config_) / sizes_of_a_batch / sample) * sample;
  adapt::BatchBounds bounds{
      .least = static_cast<double>(range.least),
      .most = std::min(static_cast<double>(range.most),
                       sample * static_cast<double>(schedule_.samples_per_epoch)),
      .quantum = has_one_micro_batch_ ? micro : std::max(sample, part),
      .one_pass = micro * static_cast<double>(run_.ranks.world())};
  // One micro-batch shows no noise, and where their size may not change there is no other way.
  if (has_one_micro_batch_) bounds.least = std::max(bounds.least, 2 * micro);
  bounds.least = std::min(bounds.least, bounds.most);
  return bounds;
}

std::optional<std::string> BatchControl::decide(TrainState& state) {
  if (!adapt::measures_noise(config_.adapt.batch) || state.window >= total_) return std::nullopt;
  const double batch = batch_of(state.window);
  const adapt::BatchDecision decision =
      adapt::decide_batch(config_.adapt.batch, bounds(),
                          {.batch = batch,
                           .base_batch = stated_batch(config_),
                           .noise = noise_in_batch_units(),
                           .windows_measured = state.adapt.measured,
                           .windows_wanted = windows_measured_first});
  if (decision.batch == batch) return std::nullopt;
  state.adapt.changes.push_back({.window = state.window, .size = std::llround(decision.batch)});
  state.adapt.measured = 0;
  enforce({state.adapt.changes.back()});
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
  if (grows_each_step && now != stated_batch(config_)) return std::nullopt;
  return "from step " + digit_groups(state_.step + 1) + " on " + batch_in_words(now) +
         " in place of " + batch_in_words(before) + ": " + split_in_words();
}

std::string BatchControl::batch_in_words(double batch) const {
  return digit_groups(std::llround(batch)) + (config_.batch.tokens ? " tokens" : " samples");
}

/// "8 micro-batches of 4 samples", of the window ahead.
std::string BatchControl::split_in_words() const {
  std::int64_t samples = window(state_.window).size();
  if (!config_.batch.tokens || samples_.tokens_per_sample.value_or(0) > 0)  // not an epoch's rest
    samples = std::llround(batch_of(state_.window)) /
              (config_.batch.tokens ? *samples_.tokens_per_sample : 1);
  const std::int64_t most = run_.plan.micro_batch;
  const std::int64_t micro =
      std::min(samples, is_probed(samples, most) ? most : micro_batch(samples, most));
  return counted((samples + micro - 1) / micro, "micro-batch") + " of " + counted(micro, "sample");
}

void BatchControl::report(const std::vector<std::string>& blocks, StepReport& report) const {
  if (total_ != run_.plan.total_steps) report.total_steps = total_;
  const auto noise = scale_of(state_.adapt.noise);
  if (!noise) return;
  report.gradient_variance = noise->variance;
  report.noise_scale = noise->value;
  report.noise_scale_low = noise->low;
  report.noise_scale_high = noise->high;
  if (const auto in_geometry = scale_of(state_.adapt.in_geometry))
    report.noise_scale_in_geometry = in_geometry->value;
  for (std::size_t i = 0; i < std::min(blocks.size(), state_.adapt.blocks.size()); ++i)
    if (const auto block = scale_of(state_.adapt.blocks[i]); block && block->value)
      report.noise_scales[blocks[i]] = *block->value;
}

std::unique_ptr<NoiseMeter> make_noise_meter(const RunContext& run,
                                             const accum::GradientBuffer& buffer) {
  const Config& config = run.work.config;
  const bool is_wanted = config.observe.noise != NoiseDetail::none || uses_noise(config);
  const bool shows_parts = !buffer.folds() && !config.dist.takes_outer_steps() &&
                           config.dist.stages == 1 && !is_exact(config, *run.work.model) &&
                           run.work.model->losses().size() == 1;
  if (!is_wanted || !shows_parts) return nullptr;
  const bool is_fixed = config.precision.accumulate == accum::Accumulation::fixed;
  NoiseMeter::Options options{.detail = config.observe.noise,
                              .is_counted = !is_fixed || run.ranks.is_first(),
                              .decides = uses_noise(config),
                              .beta2 = config.optim.beta2,
                              .eps = config.optim.eps};
  if (adapt::measures_noise(config.adapt.batch)) options.geometry = config.adapt.geometry;
  return std::make_unique<NoiseMeter>(buffer, run.optimizer, options);
}

}  // namespace accrue::train
