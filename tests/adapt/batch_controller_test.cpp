#include "accrue/adapt/batch_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace accrue::adapt {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr BatchBounds wide{.least = 1024, .most = 1 << 20, .quantum = 1024, .one_pass = 1024};

NoiseScale noise(double value, double low, double high) {
  return {.value = value, .low = low, .high = high, .variance = 1};
}

/// A gradient that cannot be distinguished from 0.
NoiseScale unbounded(double low) { return {.low = low, .variance = 1}; }

BatchFacts measured(double batch, const NoiseScale& scale) {
  return {.batch = batch, .base_batch = batch, .noise = scale, .windows_measured = 20};
}

constexpr auto measuring = {BatchRule::noise_scale, BatchRule::norm_test, BatchRule::critical};
constexpr auto all_but_fixed = {BatchRule::noise_scale, BatchRule::norm_test, BatchRule::critical,
                                BatchRule::seesaw};

void expect_stays(BatchRule rule, const BatchBounds& bounds, const BatchFacts& facts) {
  const BatchDecision decision = decide_batch(rule, bounds, facts);
  EXPECT_EQ(decision.batch, facts.batch) << batch_rule_words.of(rule);
  EXPECT_THAT(decision.reason, IsEmpty());
}

TEST(BatchRule, MeasuresWhereTheNoiseDecides) {
  for (const BatchRule rule : measuring) EXPECT_TRUE(measures_noise(rule));
  EXPECT_FALSE(measures_noise(BatchRule::fixed));
  EXPECT_FALSE(measures_noise(BatchRule::seesaw));
}

TEST(FixedBatch, StaysWhateverIsMeasuredOrAllowed) {
  expect_stays(BatchRule::fixed, wide, measured(16'384, noise(100'000, 90'000, 110'000)));
  expect_stays(BatchRule::fixed, {.least = 64, .most = 128, .quantum = 64, .one_pass = 64},
               measured(1000, noise(10, 9, 11)));
}

TEST(NoiseScaleRule, GoesToTheNoiseScale) {
  const BatchDecision up =
      decide_batch(BatchRule::noise_scale, wide, measured(16'384, noise(24'000, 20'000, 30'000)));
  EXPECT_EQ(up.batch, 23 * 1024);
  EXPECT_EQ(up.reason, "batch 16,384 -> 23,552: the noise scale is 24,000 (20,000 to 30,000)");
  EXPECT_FALSE(up.rate_left);
  const BatchDecision down =
      decide_batch(BatchRule::noise_scale, wide, measured(32'768, noise(24'000, 20'000, 30'000)));
  EXPECT_EQ(down.batch, 23 * 1024);
}

TEST(NoiseScaleRule, ChangesByAFactorOfTwoAtMost) {
  const BatchDecision up =
      decide_batch(BatchRule::noise_scale, wide, measured(16'384, noise(52'300, 41'000, 70'000)));
  EXPECT_EQ(up.batch, 32'768);
  EXPECT_THAT(up.reason, StartsWith("batch 16,384 -> 32,768: the noise scale is 52,300 (41,000 to "
                                    "70,000); one change is by a factor of 2"));
  const BatchDecision down =
      decide_batch(BatchRule::noise_scale, wide, measured(131'072, noise(52'300, 41'000, 70'000)));
  EXPECT_EQ(down.batch, 65'536);
  EXPECT_THAT(down.reason, HasSubstr("factor of 2"));
  for (const double quanta : {1, 2, 3, 5, 7}) {
    const double next =
        decide_batch(BatchRule::noise_scale, wide, measured(quanta * 1024, noise(9, 8, 10))).batch;
    EXPECT_GE(2 * next, quanta * 1024);
  }
}

TEST(NoiseScaleRule, StaysInsideTheBand) {
  constexpr double batch = 100'000;
  constexpr BatchBounds fine{.least = 1, .most = 1e6, .quantum = 1, .one_pass = 1};
  const auto next = [&](double value) {
    return decide_batch(BatchRule::noise_scale, fine,
                        measured(batch, noise(value, value - 1, value + 1)))
        .batch;
  };
  EXPECT_EQ(next(124'999), batch);
  EXPECT_EQ(next(125'000), 125'000);
  EXPECT_EQ(next(80'001), batch);
  EXPECT_EQ(next(80'000), 80'000);
}

TEST(NoiseScaleRule, StaysWhereTheSpreadHoldsTheBatch) {
  for (const NoiseScale& wide_spread : {noise(30'000, 16'384, 60'000), noise(8000, 5000, 16'384)})
    expect_stays(BatchRule::noise_scale, wide, measured(16'384, wide_spread));
  NoiseScale without_end = noise(8000, 5000, 0);
  without_end.high.reset();
  expect_stays(BatchRule::noise_scale, wide, measured(16'384, without_end));
}

TEST(NoiseScaleRule, SettlesWhereTheNoiseScaleStays) {
  for (const double scale : {700., 1300., 1600., 9999., 77'777., 1e9}) {
    BatchFacts facts = measured(16'384, noise(scale, 0.99 * scale, 1.01 * scale));
    for (int i = 0; i < 12; ++i) {
      const BatchDecision decision = decide_batch(BatchRule::noise_scale, wide, facts);
      EXPECT_EQ(decision.reason.empty(), decision.batch == facts.batch);
      facts.batch = decision.batch;
    }
    expect_stays(BatchRule::noise_scale, wide, facts);
    const double reachable = std::clamp(scale, wide.least, wide.most);
    EXPECT_LT(std::abs(facts.batch - reachable), 0.25 * reachable + wide.quantum / 2) << scale;
  }
}

TEST(NoiseScaleRule, SaysThatAccumulationCannotPayWhereOnePassTakesAll) {
  constexpr BatchBounds bounds{.least = 1024, .most = 65'536, .quantum = 1024, .one_pass = 8192};
  const NoiseScale small = noise(3000, 2500, 3600);
  const BatchDecision first = decide_batch(BatchRule::noise_scale, bounds, measured(32'768, small));
  EXPECT_EQ(first.batch, 16'384);
  EXPECT_THAT(first.reason, Not(HasSubstr("cannot pay")));
  const BatchDecision second =
      decide_batch(BatchRule::noise_scale, bounds, measured(16'384, small));
  EXPECT_EQ(second.batch, 8192);
  EXPECT_EQ(second.reason,
            "batch 16,384 -> 8192: the noise scale is 3000 (2500 to 3600); one pass takes all of "
            "it (K = 1), so accumulation cannot pay");
  const BatchDecision third = decide_batch(BatchRule::noise_scale, bounds, measured(8192, small));
  EXPECT_EQ(third.batch, 4096) << "a smaller batch takes less time in one pass, too";
  EXPECT_THAT(third.reason, Not(HasSubstr("cannot pay"))) << "which is said once";
}

TEST(NoiseScaleRule, NamesTheBoundThatItMeets) {
  constexpr BatchBounds bounds{.least = 9000, .most = 20'000, .quantum = 1024, .one_pass = 1024};
  const BatchDecision up =
      decide_batch(BatchRule::noise_scale, bounds, measured(16'384, noise(52'300, 41'000, 70'000)));
  EXPECT_EQ(up.batch, 19 * 1024);
  EXPECT_THAT(up.reason, EndsWith("it is to be at most 19,456"));
  const BatchDecision down =
      decide_batch(BatchRule::noise_scale, bounds, measured(16'384, noise(3000, 2500, 3600)));
  EXPECT_EQ(down.batch, 9 * 1024);
  EXPECT_THAT(down.reason, EndsWith("it is to be at least 9216"));
}

TEST(NormTestRule, GrowsToWhatIsEnough) {
  const auto next = [](double batch, const NoiseScale& scale) {
    return decide_batch(BatchRule::norm_test, wide, measured(batch, scale)).batch;
  };
  EXPECT_EQ(next(16'384, noise(20'000, 17'000, 24'000)), 20 * 1024);
  EXPECT_EQ(next(16'384, noise(16'500, 16'400, 16'600)), 17 * 1024);
  EXPECT_EQ(next(16'384, noise(52'300, 41'000, 70'000)), 32'768);
  EXPECT_EQ(next(16'384, noise(20'000, 16'000, 24'000)), 16'384);
}

TEST(CriticalRule, DoublesWhereEvenTheLowerEndIsTwiceTheBatch) {
  const auto next = [](double low) {
    return decide_batch(BatchRule::critical, wide, measured(16'384, noise(90'000, low, 99'000)))
        .batch;
  };
  EXPECT_EQ(next(32'767), 16'384);
  EXPECT_EQ(next(32'768), 32'768);
}

TEST(GrowingRules, NeverShrink) {
  for (const BatchRule rule : {BatchRule::norm_test, BatchRule::critical})
    for (const double value : {0., 100., 5000., 16'384.})
      expect_stays(rule, wide, measured(16'384, noise(value, 0.9 * value, 1.1 * value)));
}

TEST(MeasuringRules, DoubleOnTheLowerEndAloneWhereTheGradientCannotBeTold) {
  for (const BatchRule rule : measuring) {
    const BatchDecision decision = decide_batch(rule, wide, measured(16'384, unbounded(40'000)));
    EXPECT_EQ(decision.batch, 32'768) << batch_rule_words.of(rule);
    EXPECT_THAT(decision.reason, HasSubstr("the noise scale is at least 40,000, as the gradient "
                                           "cannot be told from 0"));
    expect_stays(rule, wide, measured(16'384, unbounded(16'384)));
    expect_stays(rule, wide, measured(16'384, unbounded(0)));
  }
}

TEST(MeasuringRules, WaitForEnoughWindows) {
  for (const BatchRule rule : measuring) {
    BatchFacts facts = measured(16'384, noise(90'000, 80'000, 99'000));
    facts.windows_measured = 19;
    expect_stays(rule, wide, facts);
    facts.windows_measured = 20;
    EXPECT_EQ(decide_batch(rule, wide, facts).batch, 32'768);
    facts.noise.reset();
    expect_stays(rule, wide, facts);
  }
}

TEST(MeasuringRules, BringABatchInsideAtOnce) {
  constexpr BatchBounds bounds{.least = 1000, .most = 9999, .quantum = 64, .one_pass = 64};
  for (const BatchRule rule : measuring) {
    const auto inside = [&](double batch) {
      return decide_batch(rule, bounds, {.batch = batch, .base_batch = batch});
    };
    EXPECT_EQ(inside(10).batch, 1024);
    EXPECT_EQ(inside(20'000).batch, 9984);
    EXPECT_EQ(inside(2000).batch, 1984);
    EXPECT_EQ(inside(20'000).reason,
              "batch 20,000 -> 9984: batches are whole multiples of 64 from 1024 to 9984");
  }
}

TEST(MeasuringRules, TakeAtLeastOneQuantumAndTheUpperBoundBeforeTheLower) {
  const auto inside = [](double batch, const BatchBounds& bounds) {
    return decide_batch(BatchRule::norm_test, bounds, {.batch = batch, .base_batch = batch}).batch;
  };
  EXPECT_EQ(inside(5000, {.least = 1, .most = 10, .quantum = 64, .one_pass = 1}), 64);
  EXPECT_EQ(inside(5000, {.least = 8000, .most = 640, .quantum = 64, .one_pass = 64}), 640);
}

TEST(MeasuringRules, TakeMultiplesOfAQuantumThatIsNoInteger) {
  // 0.7 / 0.1 is a little below 7, and (0.1 + 0.2) / 0.1 a little above 3.
  const BatchBounds bounds{.least = 0.1 + 0.2, .most = 0.7, .quantum = 0.1, .one_pass = 0.1};
  const auto inside = [&](double batch) {
    return decide_batch(BatchRule::norm_test, bounds, {.batch = batch, .base_batch = batch}).batch;
  };
  EXPECT_DOUBLE_EQ(inside(5), 0.7);
  EXPECT_DOUBLE_EQ(inside(0.01), 0.3);
}

TEST(Reasons, ShowSmallFiguresWithTheirDigits) {
  constexpr BatchBounds samples{.least = 1, .most = 64, .quantum = 1, .one_pass = 1};
  EXPECT_EQ(
      decide_batch(BatchRule::noise_scale, samples, measured(4, noise(2.625, 1.5, 3.25))).reason,
      "batch 4 -> 3: the noise scale is 2.62 (1.5 to 3.25)");
  EXPECT_THAT(decide_batch(BatchRule::critical, samples, measured(4, unbounded(1e30))).reason,
              HasSubstr("at least 1e+30"));
}

TEST(Seesaw, DoublesTheBatchWhereTheScheduleHalvesTheRate) {
  constexpr BatchBounds bounds{.least = 1024, .most = 50'000, .quantum = 1024, .one_pass = 1024};
  struct Row {
    double rate_left, batch, rate;
  };
  for (const auto& [rate_left, batch, rate] : {Row{1, 8192, 1},
                                               {0.51, 8192, 1},
                                               {0.5, 16'384, std::sqrt(0.5)},
                                               {0.26, 16'384, std::sqrt(0.5)},
                                               {0.25, 32'768, 0.5},
                                               {0.125, 32'768, 0.25},
                                               {0.01, 32'768, 1. / 32},
                                               {1e-300, 32'768, std::exp2(-59)}}) {
    const BatchDecision decision = decide_batch(
        BatchRule::seesaw, bounds, {.batch = batch, .base_batch = 8192, .rate_left = rate_left});
    EXPECT_EQ(decision.batch, batch) << rate_left;
    EXPECT_DOUBLE_EQ(decision.rate_left.value(), rate) << rate_left;
    EXPECT_THAT(decision.reason, IsEmpty()) << rate_left;
  }
}

TEST(Seesaw, DoublesByRoundedHalvesToo) {
  for (int halvings = 0; halvings < 50; ++halvings) {
    for (const double error : {1 - 1e-12, 1., 1 + 1e-12}) {
      const double rate_left = std::pow(0.5, halvings) * error;
      const BatchDecision decision =
          decide_batch(BatchRule::seesaw, {.least = 1, .most = 1e300, .quantum = 1, .one_pass = 1},
                       {.batch = 3, .base_batch = 3, .rate_left = rate_left});
      EXPECT_EQ(decision.batch, 3 * std::exp2(halvings));
      EXPECT_DOUBLE_EQ(decision.rate_left.value(), std::pow(0.5, halvings / 2.));
    }
  }
}

TEST(Seesaw, SaysWhatTheScheduleDidAndWhatForbadeMore) {
  constexpr BatchBounds bounds{.least = 1024, .most = 16'384, .quantum = 1024, .one_pass = 1024};
  BatchFacts facts{.batch = 8192, .base_batch = 8192, .rate_left = 0.4};
  EXPECT_EQ(decide_batch(BatchRule::seesaw, bounds, facts).reason,
            "batch 8192 -> 16,384: the schedule has halved the learning rate 1 time");
  facts.rate_left = 0.2;
  EXPECT_EQ(decide_batch(BatchRule::seesaw, bounds, facts).reason,
            "batch 8192 -> 16,384: the schedule has halved the learning rate 2 times; it is to be "
            "at most 16,384");
}

TEST(Seesaw, IsTheStatedBatchInTheWarmUp) {
  expect_stays(BatchRule::seesaw, wide, {.batch = 8192, .base_batch = 8192});
  const BatchDecision decision =
      decide_batch(BatchRule::seesaw, wide, {.batch = 16'384, .base_batch = 8192});
  EXPECT_EQ(decision.batch, 8192);
  EXPECT_EQ(decision.reason, "batch 16,384 -> 8192: the learning rate warms up");
  EXPECT_FALSE(decision.rate_left);
}

TEST(Seesaw, KeepsItsStageAtARateOfZero) {
  const BatchFacts facts{.batch = 32'768, .base_batch = 8192, .rate_left = 0};
  expect_stays(BatchRule::seesaw, wide, facts);
  EXPECT_EQ(decide_batch(BatchRule::seesaw, wide, facts).rate_left, 0);
}

TEST(Seesaw, TakesAStatedBatchThatIsAllowed) {
  const BatchDecision decision =
      decide_batch(BatchRule::seesaw, {.least = 1, .most = 1 << 20, .quantum = 1000, .one_pass = 1},
                   {.batch = 1000, .base_batch = 2600, .rate_left = 0.25});
  EXPECT_EQ(decision.batch, 12'000);
}

/// Facts and bounds at random, absurd ones as well.
struct AnyCase {
  BatchBounds bounds;
  BatchFacts facts;
};

AnyCase any_case(std::mt19937_64& random) {
  const auto figure = [&] { return std::exp2(std::uniform_real_distribution<>(-2, 20)(random)); };
  const auto one_in = [&](int n) { return random() % n == 0; };
  const double quantum = std::ceil(figure() / 100), low = figure();
  AnyCase any{
      .bounds = {.least = figure(), .most = figure(), .quantum = quantum, .one_pass = figure()},
      .facts = {.batch = figure(), .base_batch = figure(), .noise = unbounded(low)}};
  if (!one_in(3)) any.facts.batch = quantum * std::ceil(any.facts.batch / quantum);
  if (!one_in(4)) any.facts.noise = noise(1.5 * low, low, 2 * low);
  if (one_in(8)) any.facts.noise.reset();
  any.facts.windows_measured = one_in(8) ? 3 : 100;
  if (!one_in(8)) any.facts.rate_left = one_in(8) ? 0 : 1 / figure();
  return any;
}

TEST(AnyRule, DecidesForWholeMultiplesWithinTheBounds) {
  std::mt19937_64 random(5);
  int changes = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto [bounds, facts] = any_case(random);
    for (const BatchRule rule : all_but_fixed) {
      const BatchDecision decision = decide_batch(rule, bounds, facts);
      const double multiples = decision.batch / bounds.quantum;
      ASSERT_EQ(multiples, std::round(multiples));
      ASSERT_GE(multiples, 1);
      ASSERT_LE(decision.batch, std::max(bounds.most, bounds.quantum));
      if (decision.batch + bounds.quantum <= bounds.most) {
        ASSERT_GE(decision.batch, bounds.least);
      }
      ASSERT_EQ(decision.reason.empty(), decision.batch == facts.batch);
      ASSERT_EQ(decision.rate_left.has_value(), rule == BatchRule::seesaw && facts.rate_left);
      if (decision.rate_left) {
        ASSERT_TRUE(*decision.rate_left >= 0 && *decision.rate_left <= 1);
        ASSERT_TRUE(*decision.rate_left > 0 || facts.rate_left == 0);
      }
      changes += decision.reason.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(changes, 10'000);
}

TEST(RateFactor, FollowsTheRule) {
  const NoiseScale scale = noise(8192, 8000, 9000);
  EXPECT_EQ(rate_factor(RateRule::none, 32'768, 8192, scale), 1);
  EXPECT_EQ(rate_factor(RateRule::linear, 32'768, 8192, scale), 4);
  EXPECT_EQ(rate_factor(RateRule::sqrt, 32'768, 8192, scale), 2);
  // One base batch of noise: (1 + 1) / (1 / 4 + 1).
  EXPECT_DOUBLE_EQ(rate_factor(RateRule::adascale, 32'768, 8192, scale), 1.6);
  for (const RateRule rule : {RateRule::linear, RateRule::sqrt, RateRule::adascale})
    EXPECT_EQ(rate_factor(rule, 8192, 8192, scale), 1) << rate_rule_words.of(rule);
}

TEST(AdaScale, LiesBetweenOneAndTheRatioAndRisesWithTheNoise) {
  for (const double ratio : {1.5, 4., 64.}) {
    double before = 1;
    for (double value = 1; value < 1e9; value *= 10) {
      const double gain =
          rate_factor(RateRule::adascale, ratio * 8192, 8192, noise(value, 0, 2 * value));
      EXPECT_GT(gain, before);
      EXPECT_LT(gain, ratio);
      before = gain;
    }
    EXPECT_NEAR(before, ratio, 0.01 * ratio);
  }
}

TEST(AdaScale, HasItsLimitsWithoutNoiseAndWithoutAGradient) {
  EXPECT_EQ(rate_factor(RateRule::adascale, 32'768, 8192, noise(0, 0, 0)), 1);
  EXPECT_EQ(rate_factor(RateRule::adascale, 32'768, 8192, unbounded(0)), 4);
  EXPECT_EQ(rate_factor(RateRule::adascale, 32'768, 8192, std::nullopt), 1);
}

/// After how many tokens a second moment has lost half of what it held.
double half_life(double beta2, double batch) { return batch * std::log(0.5) / std::log(beta2); }

TEST(Beta2, KeepsItsHalfLifeInTokens) {
  for (const RateRule rule : {RateRule::linear, RateRule::sqrt, RateRule::adascale}) {
    for (const double batch : {512., 4096., 8192., 131'072.}) {
      const double beta2 = beta2_at(0.95, rule, batch, 8192);
      EXPECT_NEAR(half_life(beta2, batch) / half_life(0.95, 8192), 1, 1e-9) << batch;
    }
    EXPECT_EQ(beta2_at(0.95, rule, 8192, 8192), 0.95);
  }
  EXPECT_EQ(beta2_at(0.95, RateRule::none, 131'072, 8192), 0.95);
}

}  // namespace
}  // namespace accrue::adapt
