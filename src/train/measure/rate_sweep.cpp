#include "train/measure/rate_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "accrue/core/error.h"
#include "train/measure/short_training.h"

namespace accrue::train {
namespace {

constexpr double span = 100;  ///< how far the rates go below and above the stated one
constexpr double smoothing = 0.9;
/// A smoothed loss above the first one by this share of the gain has diverged.
constexpr double risen_again = 0.5;

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

/// Whether the last loss shows that the rate is too high: it is above the first one.
bool has_diverged(const std::vector<SweptRate>& rates) {
  const double first = rates.front().loss,
               lowest = std::ranges::min(rates, {}, &SweptRate::smoothed).smoothed;
  return rates.back().smoothed > first + risen_again * (first - lowest);
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

RateSweep sweep_rate(const Config& config, std::int64_t steps) {
  constexpr std::int64_t fewest = 10;
  if (steps < fewest)
    throw usage_error("bench --sweep-lr", "at least 10 steps", std::to_string(steps), "80");
  ShortTraining training(config);
  RateSweep sweep{.stated = config.optim.lr};
  SmoothedLoss smoothed;
  const double scaled = training.stated_rate() / config.optim.lr;  // optim.scale_lr
  for (std::int64_t i = 0; i < steps; ++i) {
    const double way = 2 * static_cast<double>(i) / static_cast<double>(steps - 1) - 1;
    const double lr = config.optim.lr * std::pow(span, way);
    const ShortTraining::Step step = training.step(training.batch_samples(), scaled * lr);
    if (!step.is_finite) {
      sweep.diverges_at = lr;
      break;
    }
    sweep.rates.push_back({.lr = lr, .loss = step.loss, .smoothed = smoothed.add(step.loss)});
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

}  // namespace accrue::train
