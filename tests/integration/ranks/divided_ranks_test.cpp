// Ranks that die and come while they divide the optimizer's state: real processes and real kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "integration/ranks/changing_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using testing::ChangingRanks;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class DividedRanks : public ChangingRanks {
 protected:
  static constexpr std::int64_t kSteps = 30;

  Config divided(const Config& alone, const std::string& out, ShardReplica replica) const {
    Config c = alone;
    c.run.out = (folder_ / out).string();
    c.run.checkpoint_every = {4, Duration::Unit::steps};
    c.dist.shard = Shard::optimizer;
    c.dist.shard_replica = replica;
    return c;
  }

  static void expect_same_end(const Config& c, const Config& alone) {
    expect_same_run(c, alone);
    expect_same_bits(state_of(c), state_of(alone));
  }

  /// The run of three ranks of which `victims` are killed at once, with a store of its own.
  std::string reasons_without(const std::vector<int>& victims, const Config& c,
                              const Config& alone) {
    end_host();
    start_host();
    std::vector<Program> ranks = start_all(c, 3);
    wait_for_step(c, 6);
    for (const int victim : victims)
      ::kill(ranks[static_cast<std::size_t>(victim)].process(), SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      const bool is_left = std::ranges::find(victims, rank) == victims.end();
      if (is_left) expect_ends_well(ranks[static_cast<std::size_t>(rank)]);
    }
    expect_same_end(c, alone);
    return reasons_of(c);
  }
};

TEST_F(DividedRanks, GoBackToTheLastCheckpointWhereOneIsLost) {
  const Config alone = fixed("alone", kSteps);
  expect_runs(alone, 1);
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(victim);
    const Config c = divided(alone, "lost" + std::to_string(victim), ShardReplica::none);
    EXPECT_THAT(
        reasons_without({victim}, c, alone),
        ContainsRegex("rank " + std::to_string(victim) +
                      " of 3 is gone; a part of the optimizer's state is lost .*, so the "
                      "run goes back to the checkpoint of step [0-9]*[02468]; 2 ranks go on "
                      "after step [0-9]*[02468]"));
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  }
  Config early = divided(alone, "early", ShardReplica::none);
  early.run.checkpoint_every = {1000, Duration::Unit::steps};
  early.run.eval_every.reset();
  EXPECT_THAT(reasons_without({1}, early, alone),
              HasSubstr("goes back to the checkpoint of step 0; 2 ranks go on after step 0"));
  EXPECT_THAT(worlds_of(early), ElementsAre(2)) << "the steps that were taken anew count once";
}

/// A rank that is killed within a step's exchange leaves no whole replica, and the run goes back
/// (docs/notes/shard_replicas.md): steps are long here, and such a kill is tried again.
TEST_F(DividedRanks, GoOnFromTheReplicaWhereOneIsLost) {
  constexpr int kMostTrials = 4;
  micro_batch_ms_ = 40;
  const Config alone = fixed("alone", kSteps);
  expect_runs(alone, 1);
  for (const int victim : {0, 1, 2}) {
    SCOPED_TRACE(victim);
    Config c;
    std::string reasons;
    int trials = 0;
    do {
      c = divided(alone, "lost" + std::to_string(victim) + "-" + std::to_string(trials),
                  ShardReplica::next);
      c.run.checkpoint_every = {1000, Duration::Unit::steps};
      reasons = reasons_without({victim}, c, alone);
    } while (reasons.find("goes back") != std::string::npos && ++trials < kMostTrials);
    EXPECT_THAT(reasons, HasSubstr("what it had of the optimizer's state comes from its replica; "
                                   "2 ranks go on after step "));
    EXPECT_THAT(reasons, Not(HasSubstr("goes back")));
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  }
}

/// The replica of the first that is lost is lost with the second.
TEST_F(DividedRanks, GoBackWhereTheReplicaIsLostAsWell) {
  const Config alone = fixed("alone", kSteps);
  expect_runs(alone, 1);
  const Config c = divided(alone, "run", ShardReplica::next);
  EXPECT_THAT(
      reasons_without({1, 2}, c, alone),
      HasSubstr("is lost with its replica, so the run goes back to the checkpoint of step "));
  EXPECT_EQ(worlds_of(c).back(), 1);
}

TEST_F(DividedRanks, TakeInOneThatComesBack) {
  const Config alone = fixed("alone", 160);
  expect_runs(alone, 1);
  const Config c = divided(alone, "run", ShardReplica::next);
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  kill_it(ranks[0]);
  wait_until([&] { return worlds_of(c).size() > 1; });
  Program again = start_rank(0, 2, slow(c));
  expect_ends_well(ranks[1]);
  expect_ends_well(again);
  EXPECT_THAT(worlds_of(c), ElementsAre(2, 1, 2));
  expect_same_end(c, alone);
}

/// What is restored matters: without the momentum that was lost the parameters become others.
TEST_F(DividedRanks, WouldShowThatTheStateIsAnother) {
  Config alone = fixed("alone", 10), other = fixed("other", 10);
  other.optim.momentum = 0.5;
  expect_runs(alone, 1);
  expect_runs(other, 1);
  const NamedParameters state = state_of(alone), others = state_of(other);
  EXPECT_FALSE(at::equal(state.back().tensor, others.back().tensor));
  EXPECT_FALSE(at::equal(parameters_of(alone).front().tensor, parameters_of(other).front().tensor));
}

}  // namespace
}  // namespace accrue::train
