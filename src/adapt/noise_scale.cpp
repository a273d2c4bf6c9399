#include "accrue/adapt/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "accrue/core/error.h"
#include "core/words.h"

namespace accrue::adapt {
namespace {

/// If the inverse weights of parts and window differ by less than this fraction, the difference of
/// the squared norms is rounding.
constexpr double least_difference = 1e-9;
/// Up to this number of degrees of freedom, that of four windows, the expansion of Student's
/// quantile has errors of 2% and more.
constexpr double least_freedom = 3;

bool all_finite(std::initializer_list<double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

bool is_decay(double decay) { return decay > 0 && decay < 1; }

/// The two averages, with the variances and the covariance of the averages.
struct Averages {
  double variance = 0, gradient = 0;
  double variance_spread = 0, gradient_spread = 0, joint_spread = 0;
};

double windows_that_count(const NoiseAverage::State& sums) {
  return sums.weight * sums.weight / sums.squared_weight;
}

/// The weighted variance of single windows, corrected because the average is theirs, is 1 / (1 - 1
/// / n) of the mean squared deviation for n effective windows, and that of the average 1 / n of it.
Averages averages_of(const NoiseAverage::State& sums) {
  const double shrinkage = 1 / (windows_that_count(sums) - 1);
  const double x = sums.variance / sums.weight, y = sums.gradient / sums.weight;
  return {.variance = x,
          .gradient = y,
          .variance_spread = std::max(0.0, sums.variance_squared / sums.weight - x * x) * shrinkage,
          .gradient_spread = std::max(0.0, sums.gradient_squared / sums.weight - y * y) * shrinkage,
          .joint_spread = (sums.product / sums.weight - x * y) * shrinkage};
}

/// Student's quantile for two-sided 90%: the normal distribution's, expanded in 1 / freedom
/// (Cornish and Fisher; Abramowitz and Stegun, 26.7.5).
double student_quantile(double freedom) {
  constexpr double z = 1.6448536269514722;
  constexpr double z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

struct RatioInterval {
  double low = 0;
  std::optional<double> high = {};
};

/// All ratios r >= 0 for which variance - r * gradient is within `quantile` standard deviations of
/// 0: those at which a r^2 - 2 b r + c <= 0.
///
/// If the gradient is significant (a > 0) they lie between the two roots. Otherwise the parabola
/// opens downwards, and there is no upper end: if the variance is significant (c > 0) the roots
/// have different signs, and all ratios from the positive one on are included; if not, 0 is
/// included as well. The root is written as c / (b + sqrt(...)), which is the lower one in both
/// cases and does not cancel if a is near 0.
///
/// An average of |G|^2 below 0 counts as 0, the nearest possible value. Otherwise the lower end
/// would rise without limit as the average falls: the weaker the gradient, the more certain a large
/// noise would seem.
RatioInterval ratio_interval(const Averages& of, double quantile) {
  const double square = quantile * quantile;
  const double x = of.variance, y = std::max(of.gradient, 0.0);
  const double a = y * y - square * of.gradient_spread;
  const double b = x * y - square * of.joint_spread;
  const double c = x * x - square * of.variance_spread;
  const double root = std::sqrt(std::max(0.0, b * b - a * c));
  RatioInterval interval;
  if (x > 0 && c > 0 && b + root > 0) interval.low = c / (b + root);
  if (a > 0) interval.high = std::max(0.0, (b + root) / a);
  return interval;
}

/// Whether the windows determine the error of their averages.
bool has_spread(const NoiseAverage::State& sums) {
  return windows_that_count(sums) - 1 > least_freedom;
}

bool is_near(double value, double expected) {
  constexpr double rounding = 1e-6;
  return std::abs(value - expected) <= rounding * expected;
}

/// The factor that the sums keep when window number `window`, from 1, is added: first (n - 1) / (n
/// + 1), by which each window weighs about the square of its number, then `decay`.
double kept_at(std::int64_t window, double decay) {
  const auto n = static_cast<double>(window);
  return std::min(decay, (n - 1) / (n + 1));
}

/// Whether weights and squared weights have the sums that this number of windows gives.
bool have_weights_of_windows(const NoiseAverage::State& sums) {
  constexpr std::int64_t settled = 100'000;  // after it no decay in use changes anything
  double weight = 0, squared = 0;
  for (std::int64_t window = 1; window <= std::min(sums.windows, settled); ++window) {
    const double kept = kept_at(window, sums.decay), before = weight;
    weight = kept * weight + 1;
    squared = kept * kept * squared + 1;
    if (weight == before && kept == sums.decay) break;
  }
  return is_near(sums.weight, weight) && is_near(sums.squared_weight, squared);
}

/// Cauchy's inequality, with room for rounding: sums of real values never violate it.
bool have_possible_squares(const NoiseAverage::State& sums) {
  constexpr double room = 1 + 1e-9;
  const auto holds = [](double product, double first, double second) {
    return std::abs(product) <= std::sqrt(first) * std::sqrt(second) * room;
  };
  return holds(sums.variance, sums.weight, sums.variance_squared) &&
         holds(sums.gradient, sums.weight, sums.gradient_squared) &&
         holds(sums.product, sums.variance_squared, sums.gradient_squared);
}

/// A contradiction in `sums` that no windows could produce; empty if there is none.
std::string fault_of(const NoiseAverage::State& sums) {
  if (!is_decay(sums.decay)) return "a decay of " + std::to_string(sums.decay);
  if (!all_finite({sums.weight, sums.squared_weight, sums.variance, sums.gradient,
                   sums.variance_squared, sums.gradient_squared, sums.product}))
    return "a sum that is not finite";
  if (sums.windows < 0) return counted(sums.windows, "window");
  if (sums.windows == 0)
    return sums == NoiseAverage::State{.decay = sums.decay} ? "" : "sums of no window";
  if (!have_weights_of_windows(sums))
    return "weights that " + counted(sums.windows, "window") + " cannot have";
  return have_possible_squares(sums) ? "" : "sums of squares that are too small for the sums";
}

}  // namespace

std::optional<NoiseEstimate> estimate_noise(const NoiseSample& sample) {
  if (!all_finite({sample.weight, sample.squared_norm, sample.part_squared_norm,
                   sample.part_inverse_weight}))
    return std::nullopt;
  if (sample.weight <= 0) return std::nullopt;
  const double inverse_weight = 1 / sample.weight;
  if (sample.part_inverse_weight <= inverse_weight * (1 + least_difference)) return std::nullopt;
  const double variance = (sample.part_squared_norm - sample.squared_norm) /
                          (sample.part_inverse_weight - inverse_weight);
  const double squared_gradient = sample.squared_norm - variance * inverse_weight;
  if (!all_finite({variance, squared_gradient})) return std::nullopt;
  return NoiseEstimate{.variance = variance, .squared_gradient = squared_gradient};
}

NoiseScale in_units(NoiseScale noise, double factor) {
  if (noise.value) *noise.value *= factor;
  noise.low *= factor;
  if (noise.high) *noise.high *= factor;
  noise.variance *= factor;
  return noise;
}

NoiseAverage::NoiseAverage(double decay) {
  if (!is_decay(decay))
    throw usage_error("average gradient noise", "a decay between 0 and 1", std::to_string(decay),
                      "0.98");
  state_.decay = decay;
}

void NoiseAverage::add(const NoiseEstimate& estimate) {
  const double x = estimate.variance, y = estimate.squared_gradient;
  if (!all_finite({x * x, y * y})) return;
  const double decay = kept_at(state_.windows + 1, state_.decay);
  const auto take = [](double& sum, double kept, double term) { sum = kept * sum + term; };
  ++state_.windows;
  take(state_.weight, decay, 1);
  take(state_.squared_weight, decay * decay, 1);
  take(state_.variance, decay, x);
  take(state_.gradient, decay, y);
  take(state_.variance_squared, decay, x * x);
  take(state_.gradient_squared, decay, y * y);
  take(state_.product, decay, x * y);
}

std::optional<NoiseScale> NoiseAverage::scale() const {
  if (state_.windows < 2) return std::nullopt;
  NoiseScale scale{.variance = *variance()};
  const double ratio = std::max(0.0, *variance()) / *squared_gradient();
  if (*squared_gradient() > 0 && std::isfinite(ratio)) scale.value = ratio;
  if (!has_spread(state_)) return scale;
  const double quantile = student_quantile(windows_that_count(state_) - 1);
  const RatioInterval interval = ratio_interval(averages_of(state_), quantile);
  scale.low = interval.low;
  scale.high = interval.high;
  return scale;
}

std::optional<double> NoiseAverage::variance() const {
  if (state_.windows == 0) return std::nullopt;
  return state_.variance / state_.weight;
}

std::optional<double> NoiseAverage::squared_gradient() const {
  if (state_.windows == 0) return std::nullopt;
  return state_.gradient / state_.weight;
}

NoiseAverage NoiseAverage::restored(const State& state) {
  if (const std::string fault = fault_of(state); !fault.empty())
    throw usage_error("restore the average of gradient noise", "sums that windows can give", fault,
                      "an earlier checkpoint");
  NoiseAverage average(state.decay);
  average.state_ = state;
  return average;
}

}  // namespace accrue::adapt
