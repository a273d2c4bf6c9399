#include "observe/compare/compare.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace accrue::observe {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using Runs = std::vector<RunResult>;

auto near(double value) { return Optional(DoubleNear(value, 1e-12)); }

RunResult run(const std::string& name, double eval_loss = 2, double tokens_per_second = 1000,
              double peak_bytes = 500) {
  return {.name = name,
          .state = RunState::done,
          .last_step = 100,
          .total_steps = 100,
          .train_loss = eval_loss + 1,
          .eval_loss = eval_loss,
          .eval_step = 100,
          .speed = Speed{tokens_per_second, SpeedUnit::tokens},
          .peak_bytes = peak_bytes};
}

Runs losses(const std::vector<double>& values) {
  Runs runs;
  for (const double value : values) runs.push_back(run("run" + std::to_string(runs.size()), value));
  return runs;
}

MetricComparison metric(const Comparison& comparison, const std::string& name) {
  for (const MetricComparison& one : comparison.metrics)
    if (one.name == name) return one;
  ADD_FAILURE() << "no metric " << name;
  return {};
}

TEST(Compare, MeetsABaselineThatIsTheSame) {
  const Comparison comparison = compare_runs({run("new")}, {run("old")}, {});
  EXPECT_TRUE(comparison.met);
  ASSERT_EQ(comparison.metrics.size(), 3U);
  for (const MetricComparison& one : comparison.metrics) {
    EXPECT_TRUE(one.met) << one.name;
    EXPECT_THAT(one.difference, near(0));
    EXPECT_FALSE(one.standard_error);
  }
  EXPECT_THAT(comparison.remarks, IsEmpty());
}

TEST(Compare, AllowsAsMuchAsIsAllowedAndNoMore) {
  const RunResult old = run("old", 2, 1000, 500);
  const Comparison at_the_edge = compare_runs({run("new", 2.01, 950, 510)}, {old}, {});
  EXPECT_TRUE(at_the_edge.met);
  EXPECT_THAT(metric(at_the_edge, "loss").difference, near(0.005));
  EXPECT_THAT(metric(at_the_edge, "speed").difference, near(-0.05));
  EXPECT_THAT(metric(at_the_edge, "memory").difference, near(0.02));
  const Comparison beyond = compare_runs({run("new", 2.0101, 949, 511)}, {old}, {});
  EXPECT_FALSE(beyond.met);
  for (const MetricComparison& one : beyond.metrics) {
    EXPECT_FALSE(one.met) << one.name;
    EXPECT_EQ(one.reason, "worse by more than is allowed");
  }
}

TEST(Compare, IsMetByAllThatIsBetter) {
  const Comparison comparison =
      compare_runs({run("new", 1, 9000, 100)}, {run("old")}, {.loss = 0, .speed = 0, .memory = 0});
  EXPECT_TRUE(comparison.met);
  for (const MetricComparison& one : comparison.metrics) EXPECT_EQ(one.reason, "better");
}

TEST(Compare, OneMetricIsEnoughToMissIt) {
  const Comparison comparison = compare_runs({run("new", 1, 500)}, {run("old")}, {});
  EXPECT_FALSE(comparison.met);
  EXPECT_TRUE(metric(comparison, "loss").met);
  EXPECT_FALSE(metric(comparison, "speed").met);
  EXPECT_TRUE(compare_runs({run("new", 1, 500)}, {run("old")}, {.speed = {}}).met)
      << "what is off is not compared";
}

/// Welch's and Student's formulas agree if both sides have n seeds: sqrt((s1^2 + s2^2) / n).
TEST(Compare, TellsMeanDeviationAndStandardErrorOfSeeds) {
  const Comparison comparison = compare_runs(losses({2.0, 2.2, 2.4}), losses({1.9, 2.0, 2.1}), {});
  const MetricComparison loss = metric(comparison, "loss");
  ASSERT_TRUE(loss.value && loss.baseline);
  EXPECT_NEAR(loss.value->mean, 2.2, 1e-12);
  EXPECT_NEAR(loss.value->deviation, 0.2, 1e-12);
  EXPECT_EQ(loss.value->runs, 3U);
  EXPECT_NEAR(loss.baseline->deviation, 0.1, 1e-12);
  EXPECT_THAT(loss.difference, near(0.1));
  EXPECT_THAT(loss.standard_error, near(std::sqrt((0.04 + 0.01) / 3) / 2.0));
}

TEST(Compare, SeedsThatScatterAsMuchAsTheyDifferProveNothing) {
  const MetricComparison scattered =
      metric(compare_runs(losses({2.0, 2.2}), losses({1.9, 2.2}), {}), "loss");
  EXPECT_TRUE(scattered.met);
  EXPECT_THAT(scattered.reason, HasSubstr("within the standard error"));
  const MetricComparison apart =
      metric(compare_runs(losses({2.19, 2.2}), losses({2.0, 2.01}), {}), "loss");
  EXPECT_FALSE(apart.met);
  const MetricComparison allowed =
      metric(compare_runs(losses({2.009, 2.011}), losses({2.0, 2.002}), {}), "loss");
  EXPECT_TRUE(allowed.met) << "the allowance holds where the scatter is small";
  EXPECT_EQ(allowed.reason, "worse by no more than is allowed");
}

/// If there is no difference and no tolerance, a baseline is missed as often as Student's t
/// exceeds 1: for n seeds a side P(T > 1) with 2n - 2 degrees of freedom, which has these closed
/// forms.
TEST(Compare, SeedsOfTheSameMissABaselineAsOftenAsStudentSays) {
  constexpr int rounds = 20'000;
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(2, 0.01);
  const auto missed = [&](std::size_t seeds) {
    int count = 0;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> left(seeds), right(seeds);
      for (double& value : left) value = normal(random);
      for (double& value : right) value = normal(random);
      count += compare_runs(losses(left), losses(right), {.loss = 0}).metrics[0].met ? 0 : 1;
    }
    return count / double{rounds};
  };
  const double two_degrees = 0.5 - 1 / (2 * std::sqrt(3.));
  const double four_degrees = 0.5 - 0.5 * (1 / std::sqrt(5.)) * (1 + 0.5 * 0.8);
  constexpr double five_deviations = 0.015;
  EXPECT_NEAR(missed(2), two_degrees, five_deviations);
  EXPECT_NEAR(missed(3), four_degrees, five_deviations);
}

TEST(Compare, OneRunBesideSeedsIsTakenToScatterLikeThem) {
  const MetricComparison loss =
      metric(compare_runs(losses({2.05}), losses({1.9, 2.0, 2.1}), {}), "loss");
  EXPECT_THAT(loss.standard_error, near(0.1 * std::sqrt(1 + 1 / 3.) / 2));
  EXPECT_TRUE(loss.met);
  EXPECT_FALSE(metric(compare_runs(losses({2.2}), losses({1.9, 2.0, 2.1}), {}), "loss").met);
}

TEST(Compare, AMetricThatARunLacksIsNeverMet) {
  RunResult bare = run("new");
  bare.speed.reset();
  bare.peak_bytes.reset();
  const Comparison comparison = compare_runs({run("other"), bare}, {run("old")}, {});
  EXPECT_FALSE(comparison.met);
  EXPECT_TRUE(metric(comparison, "loss").met);
  const MetricComparison speed = metric(comparison, "speed");
  EXPECT_FALSE(speed.met);
  EXPECT_FALSE(speed.value) << "the mean of those that have it would be of other seeds";
  EXPECT_TRUE(speed.baseline);
  EXPECT_FALSE(speed.difference);
  EXPECT_EQ(speed.reason, "new does not tell tokens_per_second");
  EXPECT_EQ(metric(comparison, "memory").reason, "new does not tell peak_bytes");
  EXPECT_EQ(metric(compare_runs({bare}, {bare, bare}, {}), "memory").reason,
            "new, new and new do not tell peak_bytes");
}

TEST(Compare, TakesTrainingLossesWhereOneRunWasNotEvaluated) {
  RunResult unevaluated = run("new", 2);
  unevaluated.eval_loss.reset();
  unevaluated.eval_step.reset();
  const Comparison comparison = compare_runs({unevaluated}, {run("old", 2)}, {});
  EXPECT_EQ(metric(comparison, "loss").measure, "train_loss");
  EXPECT_EQ(metric(comparison, "loss").baseline->mean, 3);
  EXPECT_THAT(comparison.remarks,
              ElementsAre(AllOf(HasSubstr("training"), HasSubstr("no evaluation of new"))));
  const Comparison neither = compare_runs({unevaluated}, {unevaluated}, {});
  EXPECT_EQ(metric(neither, "loss").measure, "train_loss");
  EXPECT_THAT(neither.remarks, IsEmpty());
}

TEST(Compare, ARunThatDivergedNeverMeetsTheLoss) {
  RunResult diverged = run("new", 1);
  diverged.diverged = true;
  const Comparison comparison = compare_runs({diverged}, {run("old", 2)}, {});
  EXPECT_FALSE(comparison.met);
  EXPECT_EQ(metric(comparison, "loss").measure, "eval_loss");
  EXPECT_EQ(metric(comparison, "loss").reason, "the last evaluation of new gave no finite loss");
}

TEST(Compare, TokensAndSamplesHaveNoCommonSpeed) {
  RunResult images = run("images");
  images.speed = Speed{70, SpeedUnit::samples};
  const Comparison mixed = compare_runs({images}, {run("text")}, {});
  EXPECT_FALSE(metric(mixed, "speed").met);
  EXPECT_THAT(metric(mixed, "speed").reason, HasSubstr("tokens"));
  EXPECT_TRUE(metric(mixed, "loss").met);
  EXPECT_FALSE(metric(compare_runs({run("text"), images}, {run("text")}, {}), "speed").met);
  const MetricComparison same = metric(compare_runs({images}, {images}, {}), "speed");
  EXPECT_TRUE(same.met);
  EXPECT_EQ(same.measure, "samples_per_second");
}

TEST(Compare, ABaselineOfZeroHasNoShares) {
  const Allowances all{.loss = 1};
  EXPECT_TRUE(metric(compare_runs({run("new", 0)}, {run("old", 0)}, all), "loss").met);
  const MetricComparison worse =
      metric(compare_runs({run("new", 1e-9)}, {run("old", 0)}, all), "loss");
  EXPECT_FALSE(worse.met);
  EXPECT_FALSE(worse.difference);
  EXPECT_TRUE(metric(compare_runs({run("new", -1)}, {run("old", 0)}, all), "loss").met);
  EXPECT_THAT(metric(compare_runs({run("new", -1.5)}, {run("old", -2)}, all), "loss").difference,
              near(0.25))
      << "shares are of the size";
}

TEST(Compare, SaysWhatMakesRunsHardToCompare) {
  RunResult odd = run("new");
  odd.state = RunState::running;
  odd.last_step = 1500;
  odd.total_steps = 20'000;
  odd.eval_step = 1000;
  odd.machine = "EPYC, 2 threads";
  odd.evaluated_on = "x ";
  RunResult old = run("old");
  old.machine = "EPYC, 4 threads";
  old.evaluated_on = "y ";
  EXPECT_THAT(compare_runs({odd}, {old}, {}).remarks,
              ElementsAre("new is running, at step 1500 of 20,000",
                          "losses are of different steps: 100 (old) and 1000 (new)",
                          "the runs are evaluated on different data",
                          "the runs are of different machines"));
  old.machine = "";
  EXPECT_THAT(compare_runs({odd}, {old}, {}).remarks,
              ::testing::Not(Contains(HasSubstr("machines"))))
      << "what is not told does not differ";
}

}  // namespace
}  // namespace accrue::observe
