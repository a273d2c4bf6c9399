#include "simulation/simulated_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace accrue::simulation {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A thousand machines of different speeds; each process dies every ten minutes, so there is one
/// death every 0.6 s, and some processes freeze.
Setting thousand() {
  return {.machines = 1000,
          .micro_batches = 8000,
          .micro_batch_seconds = 0.5,
          .spread = 0.3,
          .noise = 0.02,
          .timeout = 10,
          .fates = {.lifetime = 600, .freezes_after = 5000, .frozen_for = 5, .away = 2, .start = 1},
          .costs = {.close = 0.1, .notice = 0.14, .meet = 0.3, .newcomer = 0.01},
          .length = 120};
}

TEST(SimulatedRun, CountsEachSampleOnceWhileRanksOfAThousandComeAndGo) {
  const Setting setting = thousand();
  const Outcome outcome = simulate(setting);
  EXPECT_THAT(outcome.broken, IsEmpty());
  EXPECT_GT(outcome.steps, 0);
  EXPECT_EQ(outcome.samples, outcome.steps * setting.micro_batches);
  EXPECT_GT(outcome.deaths, 100);
  EXPECT_GT(outcome.joined, 50);
  EXPECT_GT(outcome.changes, 10);
}

/// If sums are reduced as they come, a window with a loss begins again: with two losses per three
/// windows some are completed, and with several in each none ever is.
TEST(SimulatedRun, BeginsAWindowAnewWhereItIsNotKept) {
  Setting setting = thousand();
  setting.keeps_windows = false;
  setting.fates = {.lifetime = 10'000, .away = 2, .start = 1};
  const Outcome some = simulate(setting);
  EXPECT_THAT(some.broken, IsEmpty());
  EXPECT_GT(some.steps, 0);
  EXPECT_EQ(some.done_again % setting.micro_batches, 0);
  setting.fates.lifetime = 600;
  EXPECT_EQ(simulate(setting).steps, 0);
}

TEST(SimulatedRun, IsUndisturbedWhereNothingHappens) {
  Setting setting = thousand();
  setting.spread = setting.noise = 0;
  setting.fates = {};
  const Outcome outcome = simulate(setting);
  EXPECT_THAT(outcome.broken, IsEmpty());
  EXPECT_EQ(outcome.changes, 0);
  // Eight micro-batches on each, and the close.
  EXPECT_NEAR(outcome.goodput(), 8 / (8 * 0.5 + 0.1), 1e-9);
}

TEST(SimulatedRun, GivesTheSlowLessOfAWindow) {
  Setting setting = thousand();
  setting.fates = {};
  const double by_speed = simulate(setting).goodput();
  setting.follows_speed = false;
  EXPECT_GT(by_speed, 1.3 * simulate(setting).goodput());
}

TEST(SimulatedRun, TakesADividedStateFromReplicasOrFromTheCheckpoint) {
  Setting setting = thousand();
  setting.state_tensors = 3;
  setting.checkpoint_every = 20;
  const Outcome outcome = simulate(setting);
  EXPECT_THAT(outcome.broken, IsEmpty());
  EXPECT_GT(outcome.from_replicas, 0);
  EXPECT_EQ(outcome.samples, outcome.steps * setting.micro_batches);
}

TEST(SimulatedRun, WaitsWhereTooFewAreLeft) {
  Setting setting = thousand();
  setting.machines = 50;
  setting.micro_batches = 400;
  setting.least = 50;
  setting.fates.freezes_after = 0;
  const Outcome outcome = simulate(setting);
  EXPECT_THAT(outcome.broken, IsEmpty());
  EXPECT_GT(outcome.waited, 0);
  EXPECT_EQ(simulate(thousand()).waited, 0);
}

// Faults must be found: each of these has one wrong decision.

/// The ranks' first shares stay: the part of dead ranks is not distributed again.
train::RangesOfRanks nothing_is_left(batch::Range, const train::RangesOfRanks& done, std::int64_t) {
  return train::RangesOfRanks(done.size());
}

/// The survivors' part is distributed again as well.
train::RangesOfRanks all_is_left(batch::Range window, const train::RangesOfRanks& done,
                                 std::int64_t micro_batch) {
  return train::divide_remaining_window(window, train::RangesOfRanks(done.size()), micro_batch);
}

/// Dead ranks are in the next group.
std::optional<std::vector<distributed::Member>> with_the_dead(
    const std::vector<distributed::Candidate>& old, const std::vector<distributed::Candidate>&,
    std::chrono::milliseconds, std::chrono::milliseconds) {
  std::vector<distributed::Member> members;
  for (const distributed::Candidate& candidate : old) members.push_back(candidate.member);
  return members;
}

TEST(SimulatedRun, FindsWhatTheDeadHadAndNobodyDid) {
  const Rules rules{.divide_remaining_window = nothing_is_left};
  EXPECT_THAT(simulate(thousand(), rules).broken, HasSubstr("counts 0 times"));
}

TEST(SimulatedRun, FindsWhatCountsTwice) {
  Setting setting = thousand();
  setting.fates = {.lifetime = 10'000, .away = 2, .start = 1};
  const Rules rules{.divide_remaining_window = all_is_left};
  EXPECT_THAT(simulate(setting, rules).broken, HasSubstr("counts 2 times"));
}

TEST(SimulatedRun, FindsAGroupThatNeverMeets) {
  const Rules rules{.next_members = with_the_dead};
  EXPECT_THAT(simulate(thousand(), rules).broken, HasSubstr("in each of 16 tries"));
}

}  // namespace
}  // namespace accrue::simulation
