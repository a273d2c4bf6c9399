#include "memory/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/budget.h"
#include "planned_machine.h"

namespace accrue::memory {
namespace {

using ::testing::HasSubstr;

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
    const auto facts = measure(on.trial(), asked,
                               {.longest_seconds = 1e9, .all_modes = true, .most_seconds = 1e9});
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
  const Plan made =
      plan(measure(on.trial(), asked, {.longest_seconds = 1e9, .most_seconds = 1e9}), asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{48, Recompute::none}));
  EXPECT_EQ(made.chosen.peak_bytes, 1100 + 48 * 100);
  EXPECT_NEAR(made.chosen.micro_batch_seconds, 50, 1e-9);
  EXPECT_NEAR(made.chosen.window_seconds, 100, 1e-9);
  EXPECT_EQ(made.micro_batches, 2);
  EXPECT_EQ(made.breakdown.activations, 4800);
  EXPECT_EQ(made.breakdown.temporaries, 100);
  EXPECT_EQ(made.breakdown.parameters, 300);
}

TEST(Plan, GivesEachRankAPart) {
  const Machine on = machine();
  PlanQuestion asked = question(32, 1'000'000);
  asked.modes = {Recompute::none};
  asked.ranks = 2;
  const auto made = [&] {
    return plan(measure(on.trial(), asked, {.longest_seconds = 1e9, .most_seconds = 1e9}), asked);
  };
  EXPECT_EQ(made().chosen.point.micro_batch, 16);
  EXPECT_EQ(made().micro_batches, 2);
  EXPECT_NEAR(made().chosen.window_seconds, 16.5, 1e-9) << "each runs half of the batch";
  EXPECT_THAT(made().reason, HasSubstr("a rank's whole part at once"));
  asked.ranks = 3;  // 11, 11 and 10 take less than 16, 8 and 8
  EXPECT_EQ(made().chosen.point.micro_batch, 11);
  EXPECT_NEAR(made().chosen.window_seconds, 11.5, 1e-9);
  asked.ranks = 64;  // more ranks than samples
  EXPECT_EQ(made().chosen.point.micro_batch, 1);
  EXPECT_NEAR(made().chosen.window_seconds, 1.5, 1e-9);
}

TEST(Plan, TakesLessMemoryWhereMoreGainsNothing) {
  Machine on = machine();
  on.costs[Recompute::none].start = 0.005;  // 0.5% of one sample
  const PlanQuestion asked = question(64, 1'000'000);
  const Plan made =
      plan(measure(on.trial(), asked, {.longest_seconds = 1e9, .most_seconds = 1e9}), asked);
  EXPECT_EQ(made.chosen.point, (PlanPoint{1, Recompute::none}));
  EXPECT_THAT(made.reason, HasSubstr("gains less than 1%"));
}

TEST(Plan, RecomputesWhereThatPays) {
  Machine on = machine();
  on.costs[Recompute::none] = {1100, 100, 4, 1.0};
  on.costs[Recompute::full] = {1100, 10, 4, 1.2};
  PlanQuestion asked = question(32, 1350);  // 2 samples, or 20 recomputed
  asked.modes = {Recompute::none, Recompute::full};
  const auto facts = measure(on.trial(), asked, {.longest_seconds = 1e9, .most_seconds = 1e9});
  const Plan made = plan(facts, asked);
  EXPECT_EQ(made.chosen.point.recompute, Recompute::full);
  EXPECT_THAT(made.reason, HasSubstr("without recomputation"));
  on.costs[Recompute::full].each = 12;
  EXPECT_EQ(plan(measure(on.trial(), asked, {.longest_seconds = 1e9, .most_seconds = 1e9}), asked)
                .chosen.point.recompute,
            Recompute::none);
}

TEST(Plan, ShowsTheFrontierFastestFirst) {
  const Machine on = machine();
  const PlanQuestion asked = question(64, 3000);
  const Plan made = plan(
      measure(on.trial(), asked, {.longest_seconds = 1e9, .all_modes = true, .most_seconds = 1e9}),
      asked);
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
  asked.may_be_offloaded = true;
  asked.place_of_state = "it stays in memory";
  asked.context = 1024;
  asked.parameter_count = 75;
  try {
    plan(measure(on.trial(), asked), asked);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.received(),
                HasSubstr("50 B are missing (memory.offload = \"auto\": it stays in memory)"));
    EXPECT_THAT(error.suggestion(), HasSubstr("memory.recompute"));
    EXPECT_THAT(error.suggestion(), HasSubstr("memory.offload"));
    // 150 of 200 bytes beyond the resident ones, less the margin, in steps of 16.
    EXPECT_THAT(error.suggestion(), HasSubstr("model.context = 736"));
    EXPECT_THAT(error.suggestion(), HasSubstr("parameters"));
  }
}

TEST(Plan, AdvisesToLeaveAStatedSizeOpen) {
  PlanQuestion asked = question(8, 1250);
  asked.modes = {Recompute::none};
  asked.micro_batch = 8;
  asked.open_micro_batch = "the batch in samples";
  try {
    plan(measure(machine().trial(), asked), asked);
    FAIL() << "a plan beyond the limit";
  } catch (const Error& error) {
    EXPECT_THAT(error.suggestion(), HasSubstr("the batch in samples"));
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
    EXPECT_THAT(error.expected(), HasSubstr("300 MiB for the program itself, "));
    EXPECT_THAT(error.received(), HasSubstr("a budget of 300 MiB, in which "));
    EXPECT_THAT(error.suggestion(), HasSubstr("memory.budget = \"301 MiB\"")) << "rounded up";
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
    EXPECT_THAT(error.received(), HasSubstr("more than"));
    EXPECT_THAT(error.suggestion(), HasSubstr("a larger memory.budget (accrue plan"));
  }
}

std::string suggestion_of(const PlanQuestion& asked, const std::vector<Fact>& facts) {
  try {
    plan(facts, asked);
  } catch (const Error& error) {
    return error.suggestion();
  }
  return "it is not refused";
}

/// The message's numbers are consistent, and the named budget is enough for the measured need.
TEST(Plan, NamesABudgetThatIsEnough) {
  constexpr std::int64_t mebi = 1 << 20;
  const std::string before = "memory.budget = \"";
  for (const std::int64_t stated : {150 * mebi, 200 * mebi, 3'000 * mebi}) {
    for (const std::int64_t peak : {30 * mebi, 77 * mebi + 5, 4'000 * mebi}) {
      const std::int64_t raw = 120 * mebi, outside = raw + reserve_outside(stated);
      PlanQuestion asked{.limit_bytes = std::max<std::int64_t>(0, stated - outside),
                         .outside_bytes = outside,
                         .stated_bytes = stated};
      if (asked.limit_bytes >= peak) continue;
      const std::string said = suggestion_of(asked, {{{1}, {.peak_bytes = peak, .seconds = 1}}});
      ASSERT_THAT(said, HasSubstr(before));
      const std::int64_t named =
          parse_bytes(said.substr(said.find(before) + before.size(),
                                  said.find('"', said.find(before) + before.size()) -
                                      said.find(before) - before.size()),
                      "message")
              .count;
      const std::int64_t left = named - raw - reserve_outside(named);
      EXPECT_GE(static_cast<double>(left) * (1 - kPlanMargin), static_cast<double>(peak) * 0.999);
      EXPECT_GE(left, peak);
      EXPECT_LE(named, (outside + peak) * 11 / 10 + 8 * mebi) << "but not much more";
    }
  }
  // For a size that never fitted, the known arithmetic gives the sufficient budget.
  PlanQuestion asked{.limit_bytes = 30 * mebi, .enough_bytes = 90 * mebi};
  const std::vector<Fact> failed{{{1}, {.fits = false, .peak_bytes = 40 * mebi}}};
  EXPECT_THAT(suggestion_of(asked, failed), HasSubstr("memory.budget = \"90.0 MiB\""));
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

/// A size that fitted in one trial may fail in the next: then it counts as failed.
TEST(Plan, DoesNotChooseWhatRanOutOfMemoryAfterItFitted) {
  for (const bool is_budget : {true, false})
    for (const std::int64_t limit : {1110, 3000}) {
      PlanQuestion asked = question(64, limit);
      asked.is_budget = is_budget;
      std::vector<Fact> facts =
          measure(machine().trial(), asked, {.longest_seconds = 1e9, .most_seconds = 1e9});
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
