// The rule by which a sweep of learning rates stops, on losses that are stated.
#include "train/measure/rate_sweep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

constexpr std::int64_t kSteps = 80;

/// The loss of step `i` of a sweep, without noise.
using Trend = std::function<double(int i)>;

/// Draws of standard deviation 1 and mean 0: sums of twelve uniform ones, alike on all machines.
class Noise {
 public:
  explicit Noise(unsigned seed) : draws_(seed) {}
  double operator()() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(draws_()) / 4294967296.0;
    return sum;
  }

 private:
  std::mt19937 draws_;
};

RateSweep swept(const Trend& trend, double deviation = 0, unsigned seed = 1) {
  Noise noise(seed);
  int i = 0;
  return sweep_rates(1e-3, kSteps, [&](double) { return trend(i++) + deviation * noise(); });
}

/// How many of 200 sweeps over this trend with noise of this size diverge.
int diverging(const Trend& trend, double deviation) {
  int count = 0;
  for (unsigned seed = 0; seed < 200; ++seed)
    count += swept(trend, deviation, seed).diverges_at ? 1 : 0;
  return count;
}

double falling(int i) { return 5.5 - 2.0 * i / (kSteps - 1); }

/// Falls for 50 steps, then rises by a fifth with each.
double rising_at_the_end(int i) {
  return i < 50 ? falling(i) : falling(50) * std::pow(1.2, i - 50);
}

TEST(RateSweep, NoiseOfSmallBatchesIsNoDivergence) {
  EXPECT_LE(diverging(falling, 0.5), 2);
  EXPECT_LE(diverging([](int) { return 5.5; }, 0.5), 2);
  EXPECT_LE(diverging(falling, 0.01), 2);
  const RateSweep sweep = swept(falling, 0.1);
  EXPECT_EQ(sweep.rates.size(), static_cast<std::size_t>(kSteps));
  EXPECT_GT(sweep.lowest_at, sweep.stated) << "the loss falls to the end";
}

TEST(RateSweep, ARiseIsDivergenceWithAndWithoutNoise) {
  EXPECT_EQ(diverging(rising_at_the_end, 0.2), 200);
  const RateSweep sweep = swept(rising_at_the_end);
  ASSERT_TRUE(sweep.diverges_at);
  EXPECT_LT(sweep.rates.size(), 60U) << "ten steps after the rise began";
  EXPECT_GT(*sweep.diverges_at, sweep.lowest_at);
  EXPECT_DOUBLE_EQ(sweep.suggested, sweep.lowest_at / 10);
}

TEST(RateSweep, ARiseFromTheFirstStepIsDivergence) {
  const RateSweep sweep = swept([](int i) { return 2.3 * std::pow(1.3, i); });
  ASSERT_TRUE(sweep.diverges_at);
  EXPECT_LT(sweep.rates.size(), 15U);
  EXPECT_EQ(sweep.lowest_at, sweep.rates.front().lr);
}

TEST(RateSweep, ALossThatStaysAsItIsHasNotDiverged) {
  EXPECT_FALSE(swept([](int) { return 0.7; }).diverges_at);
  EXPECT_FALSE(swept([](int i) { return 1 + 1e-9 * i; }).diverges_at);
  EXPECT_FALSE(swept([](int) { return 0.0; }).diverges_at);
}

TEST(RateSweep, ALossThatIsNotFiniteEndsIt) {
  int i = 0;
  const RateSweep sweep = sweep_rates(1e-3, kSteps, [&](double) -> std::optional<double> {
    return i++ < 3 ? std::optional(2.0) : std::nullopt;
  });
  EXPECT_EQ(sweep.rates.size(), 3U);
  ASSERT_TRUE(sweep.diverges_at);
  EXPECT_THROW(sweep_rates(1e-3, kSteps, [](double) { return std::nullopt; }), Error);
}

TEST(RateSweep, RatesGoFromAHundredthToAHundredTimes) {
  const RateSweep sweep = swept(falling);
  EXPECT_DOUBLE_EQ(sweep.rates.front().lr, 1e-5);
  EXPECT_DOUBLE_EQ(sweep.rates.back().lr, 0.1);
  EXPECT_THROW(sweep_rates(1e-3, 9, [](double) { return 1.0; }), Error);
}

}  // namespace
}  // namespace accrue::train
