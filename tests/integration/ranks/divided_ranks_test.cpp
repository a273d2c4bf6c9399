// Ranks that are lost and join while they divide the optimizer's state: processes that are killed
// at named points.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "integration/ranks/changing_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::ChangingRanks;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using testing::Fault;
using testing::FaultsOfRanks;
using ::testing::HasSubstr;
using testing::kInterrupted;
using ::testing::Not;
using testing::Pause;

class DividedRanks : public ChangingRanks {
 protected:
  Config divided(const Config& alone, const std::string& out, ShardReplica replica) const {
    Config c = as(alone, out);
    c.run.checkpoint_every = {4, Duration::Unit::steps};
    c.dist.shard = Shard::optimizer;
    c.dist.shard_replica = replica;
    return c;
  }
  static Config without_checkpoints(Config c) {
    c.run.checkpoint_every = {1000, Duration::Unit::steps};
    c.run.eval_every.reset();
    return c;
  }

  /// Rank 0 of two is lost at its fault, and is started again when rank 1 has taken steps alone.
  void expect_takes_in_one_that_comes_back(const Config& c, const Fault& loss) {
    const Pause alone(folder_, "alone");
    std::vector<Program> ranks = start_all(c, 2, {{0, {loss}}, {1, {tells_at_step("alone", 8)}}});
    expect_killed(ranks[0]);
    alone.wait();
    Program again = start_rank(0, 2, with_faults({{0, {stops_at_step(3)}}}, 0, command(c)));
    expect_ends(again, kInterrupted);
    expect_ends(ranks[1], kInterrupted);
    EXPECT_THAT(worlds_of(c), ElementsAre(2, 1, 2));
    expect_bits_of_one_process(c);
  }

  std::string reasons_without(const FaultsOfRanks& victims, const Config& c, const Config& alone) {
    run_without(victims, c, alone);
    expect_same_bits(state_of(c), state_of(alone));
    return reasons_of(c);
  }
};

TEST_F(DividedRanks, GoBackToTheLastCheckpointWhereOneIsLost) {
  const Config alone = fixed("alone");
  train_here(alone);
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(victim);
    const Config c = divided(alone, "lost" + std::to_string(victim), ShardReplica::none);
    EXPECT_THAT(reasons_without({{victim, {killed_at("micro-batch")}}}, c, alone),
                ContainsRegex("rank " + std::to_string(victim) +
                              " of 3 is gone; a part of the optimizer's state is lost .*, so the "
                              "run goes back to the checkpoint of step 4; 2 ranks go on after "
                              "step 4"));
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  }
  const Config early = without_checkpoints(divided(alone, "early", ShardReplica::none));
  take_new_store();
  std::vector<Program> ranks = start_all(early, 3, {{1, {killed_at("micro-batch")}}});
  expect_killed(ranks[1]);
  for (const std::size_t rank : {0U, 2U}) expect_ends_well(ranks[rank]);
  expect_same_bits(parameters_of(early), parameters_of(alone));
  expect_same_bits(state_of(early), state_of(alone));
  EXPECT_THAT(reasons_of(early),
              HasSubstr("goes back to the checkpoint of step 0; 2 ranks go on after step 0"));
  EXPECT_THAT(worlds_of(early), ElementsAre(2)) << "the steps that were taken again count once";
}

TEST_F(DividedRanks, GoOnFromTheReplicaWhereOneIsLost) {
  Config alone = fixed("alone");
  alone.batch.tokens = 12 * *alone.model.context;  // two micro-batches for each rank
  train_here(alone);
  for (const int victim : {0, 1, 2}) {
    SCOPED_TRACE(victim);
    const Config c = divided(alone, "lost" + std::to_string(victim), ShardReplica::next);
    const std::string reasons =
        reasons_without({{victim, {killed_at("micro-batch", 2)}}}, c, alone);
    EXPECT_THAT(reasons, HasSubstr("what it had of the optimizer's state comes from its replica; "
                                   "2 ranks go on after step 5"));
    EXPECT_THAT(reasons, Not(HasSubstr("goes back")));
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  }
}

/// A rank that is lost during a step's exchange leaves no complete replica, or one that a neighbour
/// had received completely (docs/notes/shard_replicas.md): either way the bits are the same.
TEST_F(DividedRanks, HaveTheSameBitsWhereAStepsExchangeIsTorn) {
  const Config alone = fixed("alone");
  train_here(alone);
  for (const char* point : {"optimizer-step", "shard:gather", "shard:replicate"})
    for (const int victim : {0, 1}) {
      SCOPED_TRACE(std::string(point) + " of rank " + std::to_string(victim));
      const Config c = divided(alone, std::string(point).substr(0, 9) + std::to_string(victim),
                               ShardReplica::next);
      const std::string reasons = reasons_without({{victim, {killed_at(point)}}}, c, alone);
      EXPECT_THAT(reasons, HasSubstr("rank " + std::to_string(victim) + " of 3 is gone"));
      const bool leaves_no_replica = std::string(point) == "shard:gather";
      EXPECT_TRUE(!leaves_no_replica ||
                  reasons.find("goes back to the checkpoint of step 4") != std::string::npos)
          << reasons;
    }
}

/// The replica of the first lost rank is lost with the second.
TEST_F(DividedRanks, GoBackWhereTheReplicaIsLostAsWell) {
  const Config alone = fixed("alone");
  train_here(alone);
  const Config c = divided(alone, "run", ShardReplica::next);
  EXPECT_THAT(
      reasons_without({{1, {killed_at("micro-batch")}}, {2, {killed_at("micro-batch")}}}, c, alone),
      HasSubstr("is lost with its replica, so the run goes back to the checkpoint of step "));
  EXPECT_EQ(worlds_of(c).back(), 1);
}

TEST_F(DividedRanks, TakeInOneThatComesBack) {
  expect_takes_in_one_that_comes_back(divided(endless_fixed("alone"), "run", ShardReplica::next),
                                      killed_at("micro-batch", 2));
}

/// Each rank has a part of the model alone: those that are left go back to a checkpoint, in which
/// a rank that joins finds the model, too.
class DividedModelRanks : public DividedRanks {
 protected:
  /// The matrices are large enough to be divided (64 KiB).
  Config fixed_with_matrices(const std::string& out) const {
    Config c = fixed(out);
    c.model.width = 128;
    return c;
  }
  Config divided_model(const Config& alone, const std::string& out) const {
    Config c = divided(alone, out, ShardReplica::none);
    c.dist.shard = Shard::all;
    return c;
  }
};

TEST_F(DividedModelRanks, GoBackToTheLastCheckpointWhereverOneIsLost) {
  const Config alone = fixed_with_matrices("alone");
  train_here(alone);
  int victim = 0;
  for (const char* point : {"shard:gather", "reduce:segment", "optimizer-step"}) {
    SCOPED_TRACE(std::string(point) + " of rank " + std::to_string(victim));
    const Config c = divided_model(alone, std::string(point).substr(0, 6));
    EXPECT_THAT(reasons_without({{victim, {killed_at(point)}}}, c, alone),
                ContainsRegex("no other rank has its part of the model .*, so the run goes back to "
                              "the checkpoint of step 4; 2 ranks go on after step 4"));
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
    ++victim;
  }
}

TEST_F(DividedModelRanks, TakeInOneThatComesBack) {
  Config c = divided_model(endless_fixed("alone"), "run");
  c.model.width = 128;
  expect_takes_in_one_that_comes_back(c, killed_at("segment:forward", 2));
}

/// The restored state matters: without the lost momentum the parameters are different.
TEST_F(DividedRanks, WouldShowThatTheStateIsAnother) {
  Config alone = fixed("alone", 10), other = fixed("other", 10);
  other.optim.momentum = 0.5;
  train_here(alone);
  train_here(other);
  const NamedParameters state = state_of(alone), others = state_of(other);
  EXPECT_FALSE(at::equal(state.back().tensor, others.back().tensor));
  EXPECT_FALSE(at::equal(parameters_of(alone).front().tensor, parameters_of(other).front().tensor));
}

}  // namespace
}  // namespace accrue::train
