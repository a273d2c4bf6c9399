#include "train/measure/batch_sweep.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/measure/short_training.h"

namespace accrue::train {
namespace {

constexpr std::int64_t most_times = 4;  ///< smallest and largest batch: stated / 4, stated * 4
/// A batch is as good as the best if its loss fell by this share of the best one's fall.
constexpr double as_good = 0.95;
constexpr double warmup_part = 0.25, averaged_part = 0.25;
constexpr double million = 1e6;

double rate_for(const ShortTraining& training, double ratio) {
  const bool is_sgd = training.config().optim.kind == OptimizerKind::sgd;
  return training.stated_rate() * (is_sgd ? ratio : std::sqrt(ratio));
}

/// The sizes in samples, the smallest first.
std::vector<std::int64_t> sizes_of(std::int64_t stated) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t part = most_times; part > 1; part /= 2)
    if (stated % part == 0) sizes.push_back(stated / part);
  for (std::int64_t times = 1; times <= most_times; times *= 2) sizes.push_back(stated * times);
  return sizes;
}

/// The weighted mean of the losses of the last quarter of the steps.
double late_loss(const std::vector<ShortTraining::Step>& steps) {
  const auto skipped =
      static_cast<std::size_t>(std::floor((1 - averaged_part) * static_cast<double>(steps.size())));
  double sum = 0, weight = 0;
  for (std::size_t i = skipped; i < steps.size(); ++i) {
    sum += steps[i].loss * steps[i].weight;
    weight += steps[i].weight;
  }
  return sum / weight;
}

/// Trains on one batch's share of samples, and adds the noise of its steps to `noise`.
SweptBatch train(ShortTraining& training, std::int64_t samples, std::int64_t steps,
                 adapt::NoiseAverage& noise) {
  training.restart();
  const double stated = static_cast<double>(training.batch_samples());
  SweptBatch swept{.batch = static_cast<double>(samples) * training.units_per_sample(),
                   .steps = steps,
                   .lr = rate_for(training, static_cast<double>(samples) / stated)};
  const double warmup = std::max(1.0, warmup_part * static_cast<double>(steps));
  std::vector<ShortTraining::Step> taken;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double part = std::min(1.0, static_cast<double>(i + 1) / warmup);
    taken.push_back(training.step(samples, part * swept.lr));
    swept.is_finite = taken.back().is_finite;
    if (!swept.is_finite) return swept;
    swept.seconds += taken.back().seconds;
    // The first step uses the Euclidean norm, whose numbers are not comparable with the others.
    if (i > 0 && taken.back().noise) noise.add(*taken.back().noise);
  }
  swept.loss = training.held_out_loss().value_or(late_loss(taken));
  return swept;
}

void compare(BatchSweep& sweep) {
  for (SweptBatch& batch : sweep.batches) {
    if (!batch.is_finite) continue;
    const double fall = sweep.loss_before - batch.loss;
    batch.loss_per_unit = fall / sweep.units * million;
    batch.loss_per_second = fall / batch.seconds;
    if (sweep.noise && sweep.noise->value)
      batch.predicted = 1 / (1 + batch.batch / *sweep.noise->value);
  }
}

std::string number(double value) { return digit_groups(std::llround(value)); }

void suggest(BatchSweep& sweep) {
  const std::string unit = sweep.counts_tokens ? " tokens" : " samples";
  double best = 0;
  for (const SweptBatch& batch : sweep.batches) best = std::max(best, batch.loss_per_unit);
  for (const SweptBatch& batch : sweep.batches)
    if (batch.is_finite && batch.loss_per_unit >= as_good * best) sweep.suggested = batch.batch;
  if (best <= 0) {
    sweep.suggested = sweep.stated;
    sweep.reason = "no batch made the loss fall: the learning rate is suspected; try --sweep-lr";
    return;
  }
  sweep.reason =
      "the largest whose loss fell by at least 95% of the best one's: " + number(sweep.suggested) +
      unit;
  if (sweep.suggested == sweep.batches.back().batch)
    sweep.reason += ", the largest tried: larger ones may do as well";
  if (sweep.noise && sweep.noise->value)
    sweep.reason += "; the noise scale is " + number(*sweep.noise->value) + unit + " so far";
}

}  // namespace

BatchSweep sweep_batch(const Config& config, std::int64_t steps_of_largest) {
  if (steps_of_largest < 4)
    throw usage_error("bench --sweep-batch", "at least 4 steps of the largest batch",
                      std::to_string(steps_of_largest), "12");
  ShortTraining training(config);
  const std::vector<std::int64_t> sizes = sizes_of(training.batch_samples());
  const std::int64_t samples = sizes.back() * steps_of_largest;
  BatchSweep sweep{
      .counts_tokens = training.counts_tokens(),
      .stated = static_cast<double>(training.batch_samples()) * training.units_per_sample(),
      .units = static_cast<double>(samples) * training.units_per_sample()};
  const ShortTraining::Step first = training.step(training.batch_samples(), 0);
  if (!first.is_finite)
    throw runtime_error("bench --sweep-batch", "a finite loss before the first step", "none",
                        "accrue doctor, which looks at data and model");
  training.restart();
  sweep.loss_before = training.held_out_loss().value_or(first.loss);
  adapt::NoiseAverage noise(0.99);
  for (const std::int64_t size : sizes)
    sweep.batches.push_back(train(training, size, samples / size, noise));
  if (const auto scale = noise.scale())
    sweep.noise = adapt::in_units(*scale, static_cast<double>(first.units) / first.weight);
  compare(sweep);
  suggest(sweep);
  return sweep;
}

}  // namespace accrue::train
