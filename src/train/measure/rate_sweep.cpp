#include "train/measure/rate_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "accrue/core/error.h"
#include "core/median.h"
#include "train/measure/short_training.h"

namespace accrue::train {
namespace {

constexpr double span = 100;  ///< how far the rates go below and above the stated one
constexpr double smoothing = 0.9;
/// A smoothed loss has diverged if it is above the start by more than each of these: a share of the
/// gain, standard deviations of a single loss, and a share of the start.
constexpr double risen_again = 0.5, beyond_noise = 4, least_rise = 0.01;
/// The start is the median of so many losses, and nothing is judged before these.
constexpr std::size_t losses_of_start = 5;

/// The mean of the losses so far, each with 0.9 of the weight of the next one.
class SmoothedLoss {
 public:
  double add(double loss) {
    sum_ = smoothing * sum_ + loss;
    weight_ = smoothing * weight_ + 1;
    return sum_ / weight_;
  }

 private:
  double sum_ = 0, weight_ = 0;
};

/// The standard deviation of a loss about its trend. Differences of neighbours leave out the trend,
/// and their median leaves out a rise at the end.
double noise_of(const std::vector<SweptRate>& rates) {
  constexpr double deviations_of_median = 1.4826;  // of a normal distribution
  std::vector<double> differences;
  for (std::size_t i = 1; i < rates.size(); ++i)
    differences.push_back(std::abs(rates[i].loss - rates[i - 1].loss));
  return deviations_of_median * median_of(std::move(differences)) / std::sqrt(2.0);
}

double start_of(const std::vector<SweptRate>& rates) {
  std::vector<double> first;
  for (std::size_t i = 0; i < losses_of_start; ++i) first.push_back(rates[i].loss);
  return median_of(std::move(first));
}

/// Whether the losses show that the last rate is too high: the loss is above its start. The losses
/// of small batches differ by chance, which alone may put one above all before it.
bool has_diverged(const std::vector<SweptRate>& rates) {
  if (rates.size() <= losses_of_start) return false;
  const double start = start_of(rates),
               lowest = std::ranges::min(rates, {}, &SweptRate::smoothed).smoothed,
               rise = rates.back().smoothed - start;
  return rise > std::max({risen_again * (start - lowest), beyond_noise * noise_of(rates),
                          least_rise * std::abs(start)});
}

std::string in_words(const RateSweep& sweep) {
  char text[200];
  std::snprintf(text, sizeof text,
                "the loss is lowest at %.2g%s; a tenth of that, %.2g, leaves room for many steps "
                "(optim.lr is %.2g)",
                sweep.lowest_at, sweep.diverges_at ? " and then diverges" : "", sweep.suggested,
                sweep.stated);
  return text;
}

}  // namespace

RateSweep sweep_rates(double stated, std::int64_t steps, const StepAtRate& step) {
  constexpr std::int64_t fewest = 10;
  if (steps < fewest)
    throw usage_error("bench --sweep-lr", "at least 10 steps", std::to_string(steps), "80");
  RateSweep sweep{.stated = stated};
  SmoothedLoss smoothed;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double way = 2 * static_cast<double>(i) / static_cast<double>(steps - 1) - 1;
    const double lr = stated * std::pow(span, way);
    const std::optional<double> loss = step(lr);
    if (!loss) {
      sweep.diverges_at = lr;
      break;
    }
    sweep.rates.push_back({.lr = lr, .loss = *loss, .smoothed = smoothed.add(*loss)});
    if (!has_diverged(sweep.rates)) continue;
    sweep.diverges_at = lr;
    break;
  }
  if (sweep.rates.empty())
    throw runtime_error("bench --sweep-lr", "a finite loss at the lowest rate", "none",
                        "accrue doctor, which looks at data and model");
  sweep.lowest_at = std::ranges::min(sweep.rates, {}, &SweptRate::smoothed).lr;
  sweep.suggested = sweep.lowest_at / 10;
  sweep.reason = in_words(sweep);
  return sweep;
}

RateSweep sweep_rate(const Config& config, std::int64_t steps) {
  ShortTraining training(config);
  const double scaled = training.stated_rate() / config.optim.lr;  // optim.scale_lr
  return sweep_rates(config.optim.lr, steps, [&](double lr) -> std::optional<double> {
    const ShortTraining::Step step = training.step(training.batch_samples(), scaled * lr);
    return step.is_finite ? std::optional(step.loss) : std::nullopt;
  });
}

}  // namespace accrue::train
