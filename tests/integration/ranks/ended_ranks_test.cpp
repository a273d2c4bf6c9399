// Runs that need all of their ranks, of which one is lost or stopped at a named point: all end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "integration/ranks/faulty_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kInterrupted;
using testing::kKilled;

class EndedRanks : public testing::FaultyRanks {
 protected:
  /// Each rank keeps an error of its own, so no run continues without one of them.
  Config all_needed(const std::string& out) const {
    Config c = small(out);
    c.run.steps = 100000;
    c.dist.compress = distributed::Compression::bf16;
    return c;
  }
};

TEST_F(EndedRanks, NameTheOneThatIsKilled) {
  Config c = all_needed("run");
  for (const char* point : {"micro-batch", "reduce:status"}) {
    SCOPED_TRACE(point);
    c.run.out = (folder_ / point).string();
    std::vector<Program> ranks = start(c, 3, {{1, {{.at = point, .action = "kill", .step = 4}}}});
    const std::string said = expect_rank_1_is_missed(ranks);
    EXPECT_THAT(said, HasSubstr("; step 3 is saved, and --resume goes on after it"));
    EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), 3);
    EXPECT_EQ(steps_done(c), 3);
  }
}

/// Both runs wait at the same time.
TEST_F(EndedRanks, NameTheOneThatIsFrozen) {
  constexpr int world = 3;
  std::vector<Config> configs;
  std::vector<std::vector<Program>> runs;
  for (const int frozen : {0, 1}) {
    const std::string name = "frozen" + std::to_string(frozen);
    Config& c = configs.emplace_back(all_needed(name));
    c.dist.timeout = {5, Duration::Unit::seconds};
    const testing::Words words = command(c);
    runs.push_back(
        accrue::testing::start_ranks(folder_ / (name + " streams"), world, world, [&](int rank) {
          return with_faults({{frozen, {{.at = "micro-batch", .action = "stop", .step = 2}}}}, rank,
                             words);
        }));
  }
  for (const int frozen : {0, 1}) {
    SCOPED_TRACE(frozen);
    std::vector<Program>& ranks = runs[static_cast<std::size_t>(frozen)];
    for (int rank = 0; rank < world; ++rank) {
      if (rank == frozen) continue;
      const Program::Result result = ranks[static_cast<std::size_t>(rank)].wait();
      EXPECT_EQ(result.status, 1);
      EXPECT_THAT(result.errors, HasSubstr(frozen == 0 ? "host of the store (rank 0"
                                                       : "no sign of life from rank 1"));
    }
    // A launcher waits for all its processes, so the others end the frozen one before they exit.
    const Program::Result result = ranks[static_cast<std::size_t>(frozen)].wait();
    EXPECT_EQ(result.status, kKilled);
    if (frozen == 0) continue;  // it is the only writer
    const Config& c = configs[static_cast<std::size_t>(frozen)];
    EXPECT_EQ(steps_done(c), 1);
    EXPECT_THAT(RunDirectory(c.run.out).checkpoint_steps(), Contains(1));
  }
}

TEST_F(EndedRanks, StopTogetherAfterASignalToOne) {
  Config c = small("run");
  c.run.steps = 100000;
  std::vector<Program> ranks =
      start(c, 2, {{1, {{.at = "optimizer-step", .action = "TERM", .step = 3}}}});
  expect_all_end(ranks, kInterrupted);
  EXPECT_GE(steps_done(c), 3);
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), steps_done(c));
}

TEST_F(EndedRanks, NameTheStageOfAPipelineThatIsKilled) {
  Config c = small("run");
  c.model.layers = 3;
  c.dist.stages = 3;
  c.run.steps = 100000;
  for (const char* point : {"pipeline:forward", "pipeline:backward"}) {
    SCOPED_TRACE(point);
    c.run.out = (folder_ / point).string();
    std::vector<Program> ranks = start(c, 3, {{1, {{.at = point, .action = "kill", .step = 3}}}});
    expect_rank_1_is_missed(ranks);
  }
}

/// The second rank is asked before its first micro-batch of the evaluation after step 3.
TEST_F(EndedRanks, StopWithinAnEvaluationAndRepeatIt) {
  Config alone = small("alone");
  alone.model.width = 128;  // whose matrices are large enough to be divided
  alone.precision.accumulate = accum::Accumulation::fixed;
  train_here(alone);
  for (const Shard shard : {Shard::none, Shard::all}) {
    Config c = alone;
    c.dist.shard = shard;
    c.run.out = (folder_ / std::string(to_string(shard))).string();
    SCOPED_TRACE(c.run.out);
    std::vector<Program> ranks =
        start(c, 2, {{1, {{.at = "evaluation", .action = "TERM", .step = 3}}}});
    expect_all_end(ranks, kInterrupted);
    EXPECT_EQ(steps_done(c), 3);
    EXPECT_EQ(lines_with("eval_loss", c).size(), 0U);
    EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), 3);
    expect_runs(c, 2, {"--resume"});
    expect_same_bits(parameters_of(c), parameters_of(alone));
    EXPECT_TRUE(evaluates_alike(c, alone));
  }
}

/// If the store is lost with rank 0, the run ends: only its checkpoints remain, of a divided state.
TEST_F(EndedRanks, GoOnFromACheckpointWhereTheStoreWasLostWithRankZero) {
  Config alone = small("alone");
  alone.precision.accumulate = accum::Accumulation::fixed;
  train_here(alone);
  Config c = alone;
  c.dist.shard = Shard::optimizer;
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  for (const char* point : {"micro-batch", "optimizer-step", "shard:gather"}) {
    SCOPED_TRACE(point);
    c.run.out = (folder_ / point).string();
    std::vector<Program> ranks = start(c, 3, {{0, {{.at = point, .action = "kill", .step = 4}}}});
    EXPECT_EQ(ranks[0].wait().status, kKilled);
    for (const std::size_t other : {1U, 2U}) {
      const Program::Result result = ranks[other].wait();
      EXPECT_EQ(result.status, 1);
      EXPECT_THAT(result.errors, HasSubstr("host of the store (rank 0"));
    }
    EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), 3);
    expect_runs(c, 3, {"--resume"});
    expect_same_bits(parameters_of(c), parameters_of(alone));
    expect_same_bits(state_of(c), state_of(alone));
  }
}

}  // namespace
}  // namespace accrue::train
