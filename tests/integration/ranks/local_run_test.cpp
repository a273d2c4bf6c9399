#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using testing::DistributedRun;
using ::testing::HasSubstr;
using testing::kInterrupted;
using testing::Words;

/// Runs by several processes with dist.local_steps.
class LocalRun : public DistributedRun {
 protected:
  /// Its steps are linear in the mean gradient.
  Config plain(const std::string& out) const {
    Config c = small(out);
    c.optim.momentum = 0;
    c.optim.clip = 0;
    return c;
  }
  Config local(const std::string& out, std::int64_t steps) const {
    Config c = plain(out);
    c.dist.local_steps = steps;
    c.dist.outer_lr = 1;
    return c;
  }
  /// With state in the inner optimizers and the outer one.
  Config diloco(const std::string& out, std::int64_t steps) const {
    Config c = small(out);
    c.optim.kind = OptimizerKind::adamw;
    c.dist.local_steps = steps;
    c.dist.outer_lr = 0.7;
    c.dist.outer_momentum = 0.9;
    return c;
  }
  /// Ranks step by themselves: only what they took part in together tells that both are running.
  static void wait_for_round(const Config& c) {
    wait_until([&] { return !lines_with("wire_bytes", c).empty(); });
  }
};

/// A mean of steps by the ranks' own mean gradients, weighted by what they were taken on, is the
/// step by the mean gradient of all. 7 samples are divided unequally.
TEST_F(LocalRun, AnOuterStepAfterEachPlainStepIsTheStepByTheWholeBatch) {
  const Config alone = plain("alone");
  expect_runs(alone, 1);
  for (const int world : {2, 3}) {
    const Config c = local("one" + std::to_string(world), 1);
    expect_runs(c, world);
    EXPECT_TRUE(are_close(c, alone)) << world;
    EXPECT_TRUE(evaluates_alike(c, alone)) << world;
    for (const nlohmann::json& step : steps_of(c)) EXPECT_GT(step["wire_bytes"], 0);
    EXPECT_EQ(steps_of(c).back()["tokens"], steps_of(alone).back()["tokens"]);
  }
  const Config apart = local("two", 2);
  expect_runs(apart, 2);
  EXPECT_FALSE(are_close(apart, alone)) << "what the comparison is to notice";
}

/// One micro-batch a window is rank 0's, whose steps are then all there is.
TEST_F(LocalRun, ARankWithoutMicroBatchesTakesPartInTheRound) {
  Config alone = plain("alone"), c = local("idle", 4);
  alone.batch.micro = c.batch.micro = 7;
  expect_runs(alone, 1);
  expect_runs(c, 3);
  EXPECT_TRUE(are_close(c, alone));
}

TEST_F(LocalRun, CommunicatesAndEvaluatesAndSavesWhereARoundEnds) {
  Config c = diloco("run", 2);
  c.run.steps = 7;
  c.run.keep = 9;
  c.dist.compress = distributed::Compression::int8;
  expect_runs(c, 2);
  for (const nlohmann::json& step : steps_of(c)) {
    const bool ends = step["step"].get<int>() % 2 == 0 || step["step"] == 7;
    EXPECT_EQ(step.contains("wire_bytes"), ends) << step;
    EXPECT_EQ(step.contains("reduce_seconds"), ends) << step;
  }
  // Every 3 steps: at 3, which becomes 4, and 6; and the end.
  EXPECT_THAT(RunDirectory(c.run.out).checkpoint_steps(), ::testing::ElementsAre(4, 6, 7));
  EXPECT_EQ(lines_with("eval_loss", c).size(), 3U);
}

TEST_F(LocalRun, ResumesToTheBitWithAsManyRanksAndRefusesOthers) {
  const Config c = diloco("run", 2);
  expect_runs(c, 2);
  const NamedParameters expected = parameters_of(c);
  expect_runs(c, 2, {"--resume", "4"});
  expect_same_bits(parameters_of(c), expected);
  for (const Program::Result& result : run(c, 3, {"--resume", "4"})) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, HasSubstr("2 ranks"));
  }
  expect_same_bits(parameters_of(c), expected);
}

TEST_F(LocalRun, StopsWhereARoundEnds) {
  Config c = diloco("run", 3);
  c.run.steps = 99999;
  std::vector<Program> ranks = start(c, 2);
  wait_for_round(c);
  ::kill(ranks[1].process(), SIGTERM);
  for (Program& rank : ranks) EXPECT_EQ(rank.wait().status, kInterrupted);
  const std::vector<std::int64_t> saved = RunDirectory(c.run.out).checkpoint_steps();
  ASSERT_FALSE(saved.empty());
  const std::int64_t last = saved.back();
  EXPECT_EQ(last % 3, 0);
  EXPECT_EQ(steps_of(c).back()["step"], last);

  // The evaluation that was due at that step is made when the run goes on.
  std::vector<Program> again = start(c, 2, {"--resume"});
  wait_until([&] { return steps_of(c).back()["step"].get<std::int64_t>() >= last + 3; });
  ::kill(again[0].process(), SIGTERM);
  for (Program& rank : again) EXPECT_EQ(rank.wait().status, kInterrupted);
  std::set<std::int64_t> evaluated;
  for (const nlohmann::json& line : lines_with("eval_loss", c))
    evaluated.insert(line["step"].get<std::int64_t>());
  EXPECT_TRUE(evaluated.contains(last)) << last;
}

/// Its own steps since the last round are nobody else's: no checkpoint may hold them.
TEST_F(LocalRun, ARankThatIsLeftAloneSavesNothingOfItsOwnSteps) {
  Config c = diloco("run", 3);
  c.run.steps = 99999;
  c.run.eval_every.reset();
  std::vector<Program> ranks = start(c, 2);
  wait_for_round(c);
  kill_rank_1(ranks);
  for (const std::int64_t step : RunDirectory(c.run.out).checkpoint_steps())
    EXPECT_EQ(step % 3, 0) << step;
}

}  // namespace
}  // namespace accrue::train
