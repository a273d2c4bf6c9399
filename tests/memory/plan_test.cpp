#include "accrue/memory/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "accrue/core/error.h"

namespace accrue::memory {
namespace {

using ::testing::HasSubstr;

/// A machine whose costs are known: bytes fixed + slope * b, seconds start + each * b.
struct Machine {
  struct Cost {
    std::int64_t fixed, slope;
    double start, each;
  };
  std::map<Recompute, Cost> costs;
  std::int64_t memory = 1'000'000'000;  ///< trials beyond it fail
  double noise = 0;                     ///< relative, of seconds
  mutable std::mt19937_64 random{7};
  mutable std::vector<PlanPoint> tried = {};

  std::int64_t bytes(const PlanPoint& point) const {
    const Cost& cost = costs.at(point.recompute);
    return cost.fixed + cost.slope * point.micro_batch;
  }
  double seconds(const PlanPoint& point) const {
    const Cost& cost = costs.at(point.recompute);
    return cost.start + cost.each * static_cast<double>(point.micro_batch);
  }
  double window_seconds(const PlanPoint& point, std::int64_t window) const {
    double total = 0;
    for (std::int64_t done = 0; done < window; done += point.micro_batch)
      total += seconds({std::min(point.micro_batch, window - done), point.recompute});
    return total;
  }
  Trial trial() const {
    return [this](const PlanPoint& point) -> Measured {
      tried.push_back(point);
      if (bytes(point) > memory) return {.fits = false, .peak_bytes = memory};
      const double error = std::uniform_real_distribution<double>(-noise, noise)(random);
      return {.peak_bytes = bytes(point), .seconds = seconds(point) * (1 + error)};
    };
  }
};

Machine machine() {
  return {.costs = {{Recompute::none, {1100, 100, 0.5, 1.0}},
                    {Recompute::selective, {1100, 60, 0.5, 1.1}},
                    {Recompute::full, {1100, 20, 0.5, 1.3}}}};
}

PlanQuestion question(std::int64_t window, std::int64_t limit) {
  return {.window_samples = window,
          .limit_bytes = limit,
          .modes = {Recompute::none, Recompute::selective, Recompute::full},
          .resident = {.parameters = 300, .gradients = 300, .optimizer = 400}};
}

std::vector<PlanPoint> tried(const Machine& on, const PlanQuestion& asked,
                             const MeasureOptions& options = {.longest_seconds = 1e9}) {
  measure(on.trial(), asked, options);
  return on.tried;
}

TEST(Measure, TriesOneAndTwoAndTheLargestPowerOfTwoThatTheLimitAllows) {
  // 97% of 3000 hold 1100 + 100 b up to b = 18.
  const auto points = tried(machine(), question(64, 3000));
  const std::vector<PlanPoint> none(points.begin(), points.begin() + 3);
  EXPECT_EQ(none, (std::vector<PlanPoint>{
                      {1, Recompute::none}, {2, Recompute::none}, {16, Recompute::none}}));
  EXPECT_EQ(points.size(), 9U) << "memory is short, so that every mode is tried";
}

TEST(Measure, StaysWithinBatchAndTime) {
  const auto of_batch = tried(machine(), question(7, 1'000'000));
  EXPECT_EQ(of_batch.back(), (PlanPoint{4, Recompute::none}));
  const auto of_time = tried(machine(), question(64, 1'000'000), {.longest_seconds = 9});
  EXPECT_EQ(of_time.back(), (PlanPoint{8, Recompute::none}));
  EXPECT_EQ(tried(machine(), question(1, 1'000'000)).size(), 1U);
}

TEST(Measure, LeavesModesOutThatMemoryDoesNotAskFor) {
  for (const PlanPoint& point : tried(machine(), question(64, 1'000'000)))
    EXPECT_EQ(point.recompute, Recompute::none);
  EXPECT_EQ(
      tried(machine(), question(64, 1'000'000), {.longest_seconds = 1e9, .all_modes = true}).size(),
      9U);
}

TEST(Measure, HalvesACheckPointThatRunsOutOfMemory) {
  Machine on = machine();
  on.memory = 2000;  // b = 9 in truth, while the limit allows 64
  PlanQuestion asked = question(64, 1'000'000);
  asked.modes = {Recompute::none};
  const auto facts = measure(on.trial(), asked, {.longest_seconds = 1e9});
  ASSERT_EQ(facts.size(), 6U);  // 1, 2, 64, 32, 16, 8
  EXPECT_EQ(facts.back().point.micro_batch, 8);
  EXPECT_TRUE(facts.back().measured.fits);
  const Plan chosen = plan(facts, asked);
  EXPECT_LT(chosen.chosen.point.micro_batch, 16) << "16 is known not to fit";
}

TEST(Measure, TriesAStatedSizeAlone) {
  PlanQuestion asked = question(64, 1900);
  asked.micro_batch = 10;
  EXPECT_EQ(tried(machine(), asked),
            (std::vector<PlanPoint>{
                {10, Recompute::none}, {10, Recompute::selective}, {10, Recompute::full}}));
}

TEST(Plan, IsOptimalAmongAllThatFit) {
  std::mt19937_64 random(3);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int round = 0; round < 300; ++round) {
    Machine on = machine();
    Machine::Cost cost{1000, draw(20, 200), 0, 0};
    for (auto& [mode, of_mode] : on.costs) {  // each mode takes more time than the one before it
      cost.fixed = draw(1000, 1500);
      cost.slope = draw(1, cost.slope);
      cost.start += static_cast<double>(draw(0, 100)) / 100;
      cost.each += static_cast<double>(draw(10, 100)) / 100;
      of_mode = cost;
    }
    const PlanQuestion asked = question(draw(1, 200), draw(1800, 20'000));
    const auto facts = measure(on.trial(), asked, {.longest_seconds = 1e9, .all_modes = true});
    const Plan made = plan(facts, asked);
    const PlanPoint& point = made.chosen.point;
    EXPECT_LE(on.bytes(point), asked.limit_bytes);
    const double seconds = on.window_seconds(point, asked.window_samples);
    for (const Recompute mode : asked.modes)
      for (const std::int64_t size : micro_batch_candidates(asked.window_samples)) {
        const PlanPoint other{size, mode};
        if (static_cast<double>(on.bytes(other)) >
            static_cast<double>(asked.limit_bytes) * (1 - kPlanMargin))
          continue;
        const double others = on.window_seconds(other, asked.window_samples);
        // Once for the size, once for the mode.
        EXPECT_LE(seconds, others * (1 + kPlanTolerance) / (1 - kPlanTolerance) * (1 + 1e-9));
        if (others <= seconds * (1 - 1e-9) && mode == point.recompute) {
          EXPECT_LE(made.chosen.peak_bytes, on.bytes(other));
        }
      }
    EXPECT_EQ(made.breakdown.total(), made.chosen.peak_bytes);
  }
}

TEST(Plan, PredictsBytesAndSecondsOfSizesThatWereNotTried) {
  Machine on = machine();
  on.costs[Recompute::none].start = 2;
  PlanQuestion asked = question(96, 7500);  // 97%: b = 61, so 48 of the candidates
  asked.modes = {Recompute::none};
  const Plan made = plan(measure(on.trial(), asked, {.longest_seconds = 1e9}), asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{48, Recompute::none}));
  EXPECT_EQ(made.chosen.peak_bytes, 1100 + 48 * 100);
  EXPECT_NEAR(made.chosen.micro_batch_seconds, 50, 1e-9);
  EXPECT_NEAR(made.chosen.window_seconds, 100, 1e-9);
  EXPECT_EQ(made.micro_batches, 2);
  EXPECT_EQ(made.breakdown.activations, 4800);
  EXPECT_EQ(made.breakdown.temporaries, 100);
  EXPECT_EQ(made.breakdown.parameters, 300);
}

TEST(Plan, IsNotMisledByNoise) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Machine on = machine();
    on.noise = 0.02;
    on.random.seed(seed);
    const PlanQuestion asked = question(64, 3000);
    const Plan made =
        plan(measure(on.trial(), asked, {.longest_seconds = 1e9, .all_modes = true}), asked);
    double best = INFINITY;
    for (const Recompute mode : asked.modes)
      for (const std::int64_t size : micro_batch_candidates(64))
        if (on.bytes({size, mode}) <= 3000)
          best = std::min(best, on.window_seconds({size, mode}, 64));
    EXPECT_LE(on.window_seconds(made.chosen.point, 64), 1.06 * best) << made.reason;
  }
}

TEST(Plan, DoesNotRecomputeForNoise) {
  // What recomputes more was measured to be faster, as something else ran beside the first trials.
  const auto fact = [](std::int64_t size, Recompute mode, std::int64_t bytes, double seconds) {
    return Fact{{size, mode}, {.peak_bytes = bytes, .seconds = seconds}};
  };
  const std::vector<Fact> facts{
      fact(1, Recompute::none, 1200, 3.0), fact(2, Recompute::none, 1300, 2.8),
      fact(8, Recompute::none, 1900, 9.0), fact(1, Recompute::full, 1150, 1.3),
      fact(2, Recompute::full, 1180, 2.6), fact(8, Recompute::full, 1300, 8.5)};
  PlanQuestion asked = question(8, 1'000'000);
  asked.modes = {Recompute::none, Recompute::full};
  const Plan made = plan(facts, asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{8, Recompute::none}));
  EXPECT_NEAR(made.chosen.micro_batch_seconds, 8.5, 1e-9);
}

TEST(Plan, DoesNotBelieveThatMoreSamplesCostNothing) {
  const std::vector<Fact> facts{{{1, Recompute::none}, {.peak_bytes = 1200, .seconds = 5}},
                                {{2, Recompute::none}, {.peak_bytes = 1300, .seconds = 2}}};
  PlanQuestion asked = question(64, 1'000'000);
  asked.modes = {Recompute::none};
  EXPECT_GE(plan(facts, asked).chosen.window_seconds, 32);
}

TEST(Plan, TakesLessMemoryWhereMoreGainsNothing) {
  Machine on = machine();
  on.costs[Recompute::none].start = 0.005;  // 0.5% of one sample
  const PlanQuestion asked = question(64, 1'000'000);
  const Plan made = plan(measure(on.trial(), asked, {.longest_seconds = 1e9}), asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{1, Recompute::none}));
  EXPECT_THAT(made.reason, HasSubstr("gains less than 1%"));
}

TEST(Plan, RecomputesWhereThatPays) {
  Machine on = machine();
  on.costs[Recompute::none] = {1100, 100, 4, 1.0};
  on.costs[Recompute::full] = {1100, 10, 4, 1.2};
  PlanQuestion asked = question(32, 1350);  // 2 samples, or 20 recomputed
  asked.modes = {Recompute::none, Recompute::full};
  const auto facts = measure(on.trial(), asked, {.longest_seconds = 1e9});
  const Plan made = plan(facts, asked);
  EXPECT_EQ(made.chosen.point.recompute, Recompute::full);
  EXPECT_THAT(made.reason, HasSubstr("full recomputation"));
  EXPECT_THAT(made.reason, HasSubstr("without recomputation"));
  on.costs[Recompute::full].each = 12;
  EXPECT_EQ(
      plan(measure(on.trial(), asked, {.longest_seconds = 1e9}), asked).chosen.point.recompute,
      Recompute::none);
}

TEST(Plan, ShowsTheFrontierFastestFirst) {
  const Machine on = machine();
  const PlanQuestion asked = question(64, 3000);
  const Plan made =
      plan(measure(on.trial(), asked, {.longest_seconds = 1e9, .all_modes = true}), asked);
  ASSERT_GE(made.alternatives.size(), 3U);
  for (std::size_t i = 1; i < made.alternatives.size(); ++i) {
    EXPECT_GE(made.alternatives[i].window_seconds, made.alternatives[i - 1].window_seconds);
    EXPECT_LT(made.alternatives[i].peak_bytes, made.alternatives[i - 1].peak_bytes);
  }
  EXPECT_FALSE(made.alternatives.front().within_limit) << "what a larger budget would bring";
  EXPECT_TRUE(made.alternatives.back().within_limit);
}

TEST(Plan, PrefersWhatLeavesAMargin) {
  const Machine on = machine();
  PlanQuestion asked = question(1, 1200);  // one sample takes 1200, or 1120 with full recomputation
  asked.modes = {Recompute::none, Recompute::full};
  EXPECT_EQ(plan(measure(on.trial(), asked), asked).chosen.point.recompute, Recompute::full);
}

TEST(Plan, NeedsNoMarginWhereNothingElseFits) {
  const Machine on = machine();
  PlanQuestion asked = question(1, 1200);  // exactly one sample
  asked.modes = {Recompute::none};
  EXPECT_EQ(plan(measure(on.trial(), asked), asked).chosen.peak_bytes, 1200);
  asked.limit_bytes = 1199;
  EXPECT_THROW(plan(measure(on.trial(), asked), asked), Error);
}

TEST(Plan, RefusesWhatDoesNotFitWithTheBytesMissing) {
  const Machine on = machine();
  PlanQuestion asked = question(8, 1150);
  asked.modes = {Recompute::none};
  asked.more_recomputation = true;
  asked.context = 1024;
  asked.parameter_count = 75;
  try {
    plan(measure(on.trial(), asked), asked);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.received(), HasSubstr("50 B are missing"));
    EXPECT_THAT(error.suggestion(), HasSubstr("memory.recompute"));
    // 150 of 200 bytes beyond what is resident, less the margin, in steps of 16.
    EXPECT_THAT(error.suggestion(), HasSubstr("model.context = 736"));
    EXPECT_THAT(error.suggestion(), HasSubstr("parameters"));
  }
}

TEST(Plan, SaysWhatOfTheBudgetTheProgramTakes) {
  constexpr std::int64_t mebi = 1 << 20;
  PlanQuestion asked = question(8, 1150);
  asked.modes = {Recompute::none};
  asked.outside_bytes = 300 * mebi;
  try {
    plan(measure(machine().trial(), asked), asked);
    FAIL() << "a plan beyond the limit";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("of which 300 MiB are taken by the program itself and"));
    EXPECT_THAT(error.what(), HasSubstr("a budget of 300 MiB")) << "what is needed comes on top";
  }
  asked.limit_bytes = 100 * mebi;
  EXPECT_THAT(plan(measure(machine().trial(), asked), asked).reason,
              HasSubstr("of the 100 MiB that the budget of 400 MiB leaves to tensors"));
}

TEST(Plan, SaysAtLeastWhereNotEvenOneSampleRan) {
  Machine on = machine();
  on.memory = 1100;
  const PlanQuestion asked = question(8, 1100);
  const auto facts = measure(on.trial(), asked);
  EXPECT_EQ(facts.size(), 3U) << "one sample of each mode";
  try {
    plan(facts, asked);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::refused);
    EXPECT_THAT(error.received(), HasSubstr("at least"));
  }
}

TEST(Plan, TakesTheSmallestWhereTheLimitIsNoBudget) {
  const Machine on = machine();
  PlanQuestion asked = question(8, 1110);
  asked.is_budget = false;
  const Plan made = plan(measure(on.trial(), asked), asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{1, Recompute::full}));
  EXPECT_FALSE(made.chosen.within_limit);
  EXPECT_THAT(made.reason, HasSubstr("nothing stays within the limit"));
}

/// What a trial found to fit may not fit the next time: that counts.
TEST(Plan, DoesNotChooseWhatRanOutOfMemoryAfterItFitted) {
  for (const bool is_budget : {true, false})
    for (const std::int64_t limit : {1110, 3000}) {
      PlanQuestion asked = question(64, limit);
      asked.is_budget = is_budget;
      std::vector<Fact> facts = measure(machine().trial(), asked, {.longest_seconds = 1e9});
      const auto refused = [&](const PlanPoint& point) {
        return std::ranges::any_of(facts, [&](const Fact& fact) {
          return !fact.measured.fits && fact.point.recompute == point.recompute &&
                 fact.point.micro_batch <= point.micro_batch;
        });
      };
      try {
        for (int round = 0; round < 100; ++round) {
          const PlanPoint point = plan(facts, asked).chosen.point;
          ASSERT_FALSE(refused(point)) << describe(point);
          facts.push_back({point, {.fits = false, .peak_bytes = limit + 7}});
        }
        FAIL() << "there is always something left";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::refused);
        EXPECT_THAT(error.received(), HasSubstr("missing"));
      }
    }
}

TEST(Plan, HoldsTheCutsOfAWindowBesideTheState) {
  PlanQuestion asked = question(8, 3000);
  const auto facts = measure(machine().trial(), asked);
  asked.resident.cuts = 50;
  const Plan made = plan(facts, asked);
  EXPECT_EQ(made.breakdown.total(), made.chosen.peak_bytes);
  EXPECT_GE(made.breakdown.temporaries, 50);
}

TEST(Plan, TakesTheStatedSizeInTheFirstModeThatFits) {
  const Machine on = machine();
  PlanQuestion asked = question(64, 1900);
  asked.micro_batch = 10;  // 2100, 1700, 1300 bytes
  const Plan made = plan(measure(on.trial(), asked), asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{10, Recompute::selective}));
  EXPECT_EQ(made.micro_batches, 7);
  EXPECT_NEAR(made.chosen.window_seconds, 6.4 * on.seconds({10, Recompute::selective}), 1e-9);
}

TEST(MicroBatchCandidates, ArePowersAndEvenParts) {
  EXPECT_EQ(micro_batch_candidates(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(micro_batch_candidates(7), (std::vector<std::int64_t>{1, 2, 4, 7}));
  EXPECT_EQ(micro_batch_candidates(96),
            (std::vector<std::int64_t>{1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96}));
  const auto large = micro_batch_candidates(1'000'000);
  EXPECT_TRUE(std::ranges::is_sorted(large));
  EXPECT_LT(large.size(), 60U);
  EXPECT_EQ(large.back(), 1'000'000);
}

}  // namespace
}  // namespace accrue::memory
