#include "accrue/adapt/noise_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "adapt/noisy_quadratic.h"
#include "support/errors.h"

namespace accrue::adapt {
namespace {

using ::accrue::testing::usage_message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct MeanWithError {
  double mean, standard_error;
};

MeanWithError mean_of(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (n - 1) / n)};
}

/// Windows of one kind, and their mean estimates.
struct Estimates {
  std::vector<double> variance, squared_gradient, squared_norm;
};

Estimates estimates_of(NoisyQuadratic& quadratic, double batch,
                       const std::array<double, 4>& shares) {
  Estimates all;
  for (int i = 0; i < 400; ++i) {
    const NoiseSample sample = quadratic.window(batch, shares);
    const NoiseEstimate estimate = estimate_noise(sample).value();
    all.variance.push_back(estimate.variance);
    all.squared_gradient.push_back(estimate.squared_gradient);
    all.squared_norm.push_back(sample.squared_norm);
  }
  return all;
}

void expect_unbiased(const std::vector<double>& values, double truth) {
  const MeanWithError found = mean_of(values);
  EXPECT_NEAR(found.mean, truth, 3 * found.standard_error);
}

TEST(EstimateNoise, IsUnbiasedOnAQuadraticOfKnownNoise) {
  constexpr double scale = 1000;
  for (const auto& shares :
       {std::array{.25, .25, .25, .25}, std::array{.5, .2, .1, .2}, std::array{.1, .3, .4, .2}}) {
    for (const double batch : {scale / 16, scale, 4 * scale}) {
      NoisyQuadratic quadratic(7, 200, scale);
      const Estimates found = estimates_of(quadratic, batch, shares);
      expect_unbiased(found.variance, 1);
      expect_unbiased(found.squared_gradient, 1 / scale);
    }
  }
}

// Negative control: the norm of the window's gradient contains its noise, 1 / batch, which the test
// above would have detected.
TEST(EstimateNoise, CorrectsABiasThatTheSquaredNormHas) {
  constexpr double scale = 1000, batch = scale / 4;
  NoisyQuadratic quadratic(7, 200, scale);
  const MeanWithError biased =
      mean_of(estimates_of(quadratic, batch, {.25, .25, .25, .25}).squared_norm);
  EXPECT_NEAR(biased.mean, 1 / scale + 1 / batch, 3 * biased.standard_error);
  EXPECT_GT(biased.mean, 1 / scale + 30 * biased.standard_error);
}

TEST(EstimateNoise, SolvesTwoEquations) {
  // |G|^2 = 3 and tr(Sigma) = 40, at a weight of 20 and at weights whose inverses average to 0.25.
  const NoiseEstimate found = estimate_noise({20, 5, 13, 0.25}).value();
  EXPECT_DOUBLE_EQ(found.variance, 40);
  EXPECT_DOUBLE_EQ(found.squared_gradient, 3);
  EXPECT_DOUBLE_EQ(estimate_noise({2, 1, 3, 1})->squared_gradient, -1) << "by chance";
}

TEST(EstimateNoise, NeedsPartsThatWeighLessThanTheWindow) {
  const NoiseSample lighter{4, 1, 2, 0.2500001};
  EXPECT_TRUE(estimate_noise(lighter));
  for (const double inverse : {0.25, 0.25 * (1 + 1e-10), 0.2, 0.0, -1.0})
    EXPECT_FALSE(estimate_noise({4, 1, 2, inverse})) << inverse;
}

TEST(EstimateNoise, IsNothingOfFiguresThatAreNone) {
  ASSERT_TRUE(estimate_noise({4, 1, 2, 1}));
  for (const double bad : {nan, infinity, -infinity}) {
    EXPECT_FALSE(estimate_noise({bad, 1, 2, 1}));
    EXPECT_FALSE(estimate_noise({4, bad, 2, 1}));
    EXPECT_FALSE(estimate_noise({4, 1, bad, 1}));
    EXPECT_FALSE(estimate_noise({4, 1, 2, bad}));
  }
  EXPECT_FALSE(estimate_noise({0, 1, 2, 1}));
  EXPECT_FALSE(estimate_noise({-4, 1, 2, 1}));
  EXPECT_FALSE(estimate_noise({4, 1, 1e308, 0.25 * (1 + 1e-8)}));
}

TEST(NoiseScale, IsAsManyTimesAsLargeInASmallerUnit) {
  const NoiseScale found = in_units({.value = 3, .low = 2, .high = 5, .variance = 7}, 10);
  EXPECT_THAT((std::array{*found.value, found.low, *found.high, found.variance}),
              ElementsAre(30, 20, 50, 70));
  const NoiseScale unbounded = in_units({.low = 2}, 10);
  EXPECT_FALSE(unbounded.value || unbounded.high);
}

NoiseAverage average_of(NoisyQuadratic& quadratic, double batch, int windows, double decay = 0.98) {
  NoiseAverage average(decay);
  for (int i = 0; i < windows; ++i) average.add(estimate_noise(quadratic.window(batch)).value());
  return average;
}

TEST(NoiseAverage, FindsTheNoiseScaleInAHundredWindows) {
  constexpr double scale = 5000;
  for (const double batch : {scale / 4, scale / 2, scale, 2 * scale}) {
    NoisyQuadratic quadratic(11, 1000, scale);
    const NoiseScale found = average_of(quadratic, batch, 100).scale().value();
    ASSERT_TRUE(found.value) << batch;
    EXPECT_NEAR(*found.value, scale, 0.1 * scale) << batch;
    EXPECT_NEAR(found.variance, 1, 0.1) << batch;
    EXPECT_LT(found.low, *found.value) << batch;
    EXPECT_GT(found.high.value(), *found.value) << batch;
  }
}

/// The share of 300 series of 100 windows whose interval contains `claimed`, if the noise scale is
/// 1000.
double share_that_holds(double claimed, double batch, double decay) {
  constexpr int series = 300;
  int hits = 0;
  for (int i = 0; i < series; ++i) {
    NoisyQuadratic quadratic(1000 + i, 50, 1000);
    const NoiseScale found = average_of(quadratic, batch, 100, decay).scale().value();
    hits += found.low <= claimed && (!found.high || claimed <= *found.high) ? 1 : 0;
  }
  return static_cast<double>(hits) / series;
}

// Nine of ten have to contain it, and 95% if the gradient can hardly be distinguished from 0, as
// then the noise scale can only be too small for the interval. The share's standard deviation over
// 300 series is 1.7% and 1.3%; three of them are allowed.
TEST(NoiseAverage, HoldsTheTruthInNineOfTenIntervals) {
  for (const double decay : {0.98, 0.9}) {
    for (const double batch : {1000. / 64, 1000. / 16, 1000. / 4, 1000., 2000.}) {
      const double share = share_that_holds(1000, batch, decay);
      EXPECT_GE(share, 0.9 - 3 * 0.0173) << batch;
      EXPECT_LE(share, batch < 100 ? 0.95 + 3 * 0.0126 : 0.9 + 3 * 0.0173) << batch;
    }
  }
}

// Negative control: a value that is off by half is seldom contained.
TEST(NoiseAverage, ExcludesWhatIsNotTheTruth) {
  EXPECT_LT(share_that_holds(1500, 1000, 0.98), 0.1);
  EXPECT_LT(share_that_holds(667, 1000, 0.98), 0.1);
}

/// Twelve windows' estimates around averages, in which neither follows from the other.
std::vector<NoiseEstimate> scattered(double variance, double gradient, int windows = 12) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<NoiseEstimate> all;
  for (int i = 0; i < windows; ++i) {
    const double common = normal(random);
    all.push_back({variance + 2 * common + normal(random), gradient - common + normal(random)});
  }
  return all;
}

NoiseAverage average_of(const std::vector<NoiseEstimate>& windows, double decay) {
  NoiseAverage average(decay);
  for (const NoiseEstimate& window : windows) average.add(window);
  return average;
}

/// By how many of its standard deviations mean(variance) - ratio * mean(squared gradient) differs
/// from 0, from the windows themselves. The last weighs 1, the one before it `decay`; of the first
/// ones number n weighs as n (n + 1), until that rises by less than 1 / decay.
double deviations_from(double ratio, const std::vector<NoiseEstimate>& windows, double decay) {
  double total = 0, squared = 0, mean = 0, scatter = 0;
  const auto weigh = [&](const auto& use) {
    double weight = 1;
    for (std::size_t i = windows.size(); i-- > 0;) {
      use(weight, windows[i].variance - ratio * windows[i].squared_gradient);
      const auto n = static_cast<double>(i + 1);
      weight *= std::min(decay, (n - 1) / (n + 1));
    }
  };
  weigh([&](double weight, double) { total += weight, squared += weight * weight; });
  weigh([&](double weight, double value) { mean += weight * value / total; });
  weigh([&](double weight, double value) {
    scatter += weight * (value - mean) * (value - mean) / (total - squared / total);
  });
  return std::abs(mean) / std::sqrt(scatter * squared / (total * total));
}

// Fieller's ends are the ratios that are just not refused. Student's quantiles are from tables; the
// expansion is off by 0.9% at 4 degrees of freedom.
TEST(NoiseAverage, EndsWhereStudentsQuantileIsReached) {
  struct Row {
    int windows;
    double quantile;
  };
  constexpr double hardly_any = 1 - 1e-12;
  // As 4.98, 11.66 and 22.77 windows that weigh the same.
  for (const auto& [windows, quantile] : {Row{8, 2.1350}, Row{20, 1.8012}, Row{40, 1.7179}}) {
    const auto estimates = scattered(100, 20, windows);
    const NoiseScale found = average_of(estimates, hardly_any).scale().value();
    EXPECT_NEAR(deviations_from(found.low, estimates, hardly_any), quantile, 0.01 * quantile);
    EXPECT_NEAR(deviations_from(found.high.value(), estimates, hardly_any), quantile,
                0.01 * quantile);
  }
}

TEST(NoiseAverage, WeighsTheNewestWindowsMost) {
  constexpr double decay = 0.9;
  const auto estimates = scattered(100, 20, 40);
  const NoiseScale found = average_of(estimates, decay).scale().value();
  EXPECT_NEAR(deviations_from(found.value.value(), estimates, decay), 0, 1e-9);
  const double low = deviations_from(found.low, estimates, decay);
  EXPECT_NEAR(low, deviations_from(found.high.value(), estimates, decay), 1e-6);
  // Windows that count: (1 + decay) / (1 - decay) = 19 but for those before the first, 17.8; the
  // quantile for as many less one degrees of freedom is 1.7408.
  EXPECT_NEAR(low, 1.7408, 0.01 * 1.7408);
}

TEST(NoiseAverage, HasNoUpperEndWhereTheGradientCannotBeTold) {
  const NoiseScale found = average_of(scattered(100, 0.1), 0.98).scale().value();
  EXPECT_FALSE(found.high);
  EXPECT_GT(found.low, 0);
  EXPECT_TRUE(average_of(scattered(100, 20), 0.98).scale()->high);
}

TEST(NoiseAverage, KeepsTheLowerEndWhereTheSquareIsBelowZero) {
  const auto low_at = [](double gradient) {
    const NoiseScale found = average_of(scattered(100, gradient), 0.98).scale().value();
    EXPECT_FALSE(found.value) << gradient;
    EXPECT_FALSE(found.high) << gradient;
    return found.low;
  };
  EXPECT_GT(low_at(-1), 10);
  EXPECT_NEAR(low_at(-5), low_at(-1), 1e-6);
  EXPECT_LT(average_of(scattered(100, 1), 0.98).scale()->low, low_at(-1));
}

TEST(NoiseAverage, HasNoLowerEndWhereNoNoiseCanBeTold) {
  const NoiseScale found = average_of(scattered(0.1, 20), 0.98).scale().value();
  EXPECT_EQ(found.low, 0);
  EXPECT_GT(found.high.value(), 0);
  const NoiseScale below = average_of(scattered(-100, 20), 0.98).scale().value();
  EXPECT_EQ(below.value, 0);
  EXPECT_EQ(below.low, 0);
  EXPECT_EQ(below.high, 0);
  EXPECT_EQ(average_of(scattered(-100, 0.1), 0.98).scale()->low, 0);
}

TEST(NoiseAverage, SaysLittleOfFewWindows) {
  NoiseAverage average;
  EXPECT_FALSE(average.variance() || average.squared_gradient());
  const auto estimates = scattered(1000, 200);
  for (std::int64_t windows = 1; windows <= 9; ++windows) {
    average.add(estimates[static_cast<std::size_t>(windows)]);
    EXPECT_EQ(average.windows(), windows);
    EXPECT_TRUE(average.variance());
    EXPECT_EQ(average.scale().has_value(), windows >= 2);
    if (windows < 2) continue;
    EXPECT_TRUE(average.scale()->value);
    EXPECT_EQ(average.scale()->low > 0, windows >= 7) << windows;
    EXPECT_EQ(average.scale()->high.has_value(), windows >= 7) << windows;
  }
}

TEST(NoiseAverage, HasNoSpreadWhereTheDecayLeavesTooFewWindows) {
  const auto estimates = scattered(1000, 200, 50);
  EXPECT_FALSE(average_of(estimates, 0.6).scale()->high);
  EXPECT_FALSE(average_of(estimates, 1e-300).scale()->high);
  EXPECT_TRUE(average_of(estimates, 0.605).scale()->high);
}

TEST(NoiseAverage, HasADefiniteSpreadOfWindowsThatAreAllAlike) {
  const NoiseScale found =
      average_of(std::vector<NoiseEstimate>(10, {12, 3}), 0.98).scale().value();
  EXPECT_NEAR(found.low, 4, 1e-6);
  EXPECT_NEAR(found.high.value(), 4, 1e-6);
  const NoiseScale of_no_gradient =
      average_of(std::vector<NoiseEstimate>(10, {12, 0}), 0.98).scale().value();
  EXPECT_EQ(of_no_gradient.low, 0);
  EXPECT_FALSE(of_no_gradient.high);
}

TEST(NoiseAverage, LeavesOutWhatIsNotFinite) {
  NoiseAverage average = average_of(scattered(100, 20), 0.98);
  const NoiseAverage::State before = average.state();
  for (const double bad : {nan, infinity, -infinity, 1e200}) {
    average.add({bad, 1});
    average.add({1, bad});
  }
  EXPECT_EQ(average.state(), before);
}

TEST(NoiseAverage, GoesOnWithTheSameBitsAfterARestore) {
  const auto estimates = scattered(100, 1, 30);
  NoiseAverage straight(0.95), resumed(0.95);
  for (const NoiseEstimate& estimate : estimates) {
    straight.add(estimate);
    resumed = NoiseAverage::restored(resumed.state());
    resumed.add(estimate);
  }
  EXPECT_EQ(resumed.state(), straight.state());
  EXPECT_EQ(resumed.scale()->value, straight.scale()->value);
  EXPECT_EQ(resumed.scale()->low, straight.scale()->low);
  EXPECT_EQ(resumed.scale()->high, straight.scale()->high);
}

TEST(NoiseAverage, RestoresTheStateOfVeryManyWindows) {
  for (const double decay : {0.01, 0.98, 0.9999, 1 - 1e-9}) {
    NoiseAverage average(decay);
    for (int i = 0; i < 20'000; ++i) average.add({5, 1});
    EXPECT_EQ(NoiseAverage::restored(average.state()).state(), average.state()) << decay;
  }
}

TEST(NoiseAverage, RefusesAStateThatNoWindowsGive) {
  using State = NoiseAverage::State;
  const State sound = average_of(scattered(100, 20), 0.98).state();
  const auto refusal = [&](const std::function<void(State&)>& damage) {
    State state = sound;
    damage(state);
    return usage_message([&] { NoiseAverage::restored(state); });
  };
  EXPECT_THAT(refusal([](State& s) { s.decay = 1; }), HasSubstr("a decay of 1.0"));
  EXPECT_THAT(refusal([](State& s) { s.decay = nan; }), HasSubstr("a decay of"));
  for (double State::*sum :
       {&State::weight, &State::squared_weight, &State::variance, &State::gradient,
        &State::variance_squared, &State::gradient_squared, &State::product}) {
    for (const double bad : {nan, infinity})
      EXPECT_THAT(refusal([&](State& s) { s.*sum = bad; }), HasSubstr("not finite"));
    EXPECT_THAT(refusal([&](State& s) { s = {.decay = 0.98}, s.*sum = 1; }),
                HasSubstr("sums of no window"));
  }
  EXPECT_THAT(refusal([](State& s) { s.windows = -1; }), HasSubstr("received -1 window"));
  EXPECT_THAT(refusal([](State& s) { s.windows = 11; }), HasSubstr("weights that 11 windows"));
  EXPECT_THAT(refusal([](State& s) { s.squared_weight *= 1.01; }), HasSubstr("weights"));
  EXPECT_THAT(refusal([](State& s) { s.variance_squared *= 0.9; }), HasSubstr("too small"));
  EXPECT_THAT(refusal([](State& s) { s.gradient_squared *= -1; }), HasSubstr("too small"));
  EXPECT_THAT(refusal([](State& s) { s.product *= -2; }), HasSubstr("too small"));
}

TEST(NoiseAverage, RefusesADecayThatIsNone) {
  for (const double decay : {0.0, 1.0, -0.5, 1.5, nan})
    EXPECT_THAT(usage_message([&] { NoiseAverage{decay}; }), HasSubstr("between 0 and 1"));
}

}  // namespace
}  // namespace accrue::adapt
