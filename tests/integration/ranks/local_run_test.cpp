#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <utility>

#include "distributed/schedule/outer_schedule.h"
#include "integration/ranks/local_rounds.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::DistributedRun;
using ::testing::HasSubstr;
using testing::streamed;

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
  Config diloco(const std::string& out, std::int64_t steps) const {
    return testing::diloco(small(out), steps);
  }
  /// Two rounds of three windows of 6 samples, 3 for each of two ranks. `counts`: whether labels
  /// count, by window and rank.
  Config labelled(const std::string& out, const std::function<bool(int, int)>& counts) const {
    std::ofstream lines(folder_ / (out + ".jsonl"));
    for (int i = 0; i < 36; ++i)
      lines << nlohmann::json{{"input_ids", {1, 2, 3}},
                              {"labels", counts(i / 6, i % 6 / 3)
                                             ? nlohmann::json{1, 2, 3}
                                             : nlohmann::json{-100, -100, -100}}}
            << "\n";
    Config c = local(out, 3);
    c.model.vocab = 8;
    c.data.train = {(folder_ / (out + ".jsonl")).string()};
    c.data.val.clear();
    c.data.val_fraction = 0;
    c.data.order = batch::Order::sequential;
    c.run.eval_every.reset();
    c.run.steps = 6;
    c.batch = {.samples = 6, .micro = 3};
    c.dist.shares = Shares::equal;
    return c;
  }
  /// The step count after each window of a run of two ranks, by the first rank.
  std::vector<std::int64_t> first_rank_counts(const Config& c) {
    expect_runs(c, 2);
    std::vector<std::int64_t> steps;
    for (const nlohmann::json& step : steps_of(c)) steps.push_back(step.at("step"));
    return steps;
  }
};

/// The mean of steps by the ranks' own mean gradients, weighted by their weights, is the step by
/// the mean gradient of all. 7 samples are divided unequally.
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

/// Rank 0 has the only micro-batch of each window, so only its steps count.
TEST_F(LocalRun, ARankWithoutMicroBatchesTakesPartInTheRound) {
  Config alone = plain("alone"), c = local("idle", 4);
  alone.batch.micro = c.batch.micro = 7;
  expect_runs(alone, 1);
  expect_runs(c, 3);
  EXPECT_TRUE(are_close(c, alone));
}

/// The second window has no weight on any rank, the fourth only on the first rank, which learns at
/// the end of the round that it was a step.
TEST_F(LocalRun, CountsNoStepForAWindowWithoutWeightOnAnyRank) {
  const auto counts = [](int window, int rank) {
    return window != 1 && (window != 3 || rank == 1);
  };
  for (const auto& [parts, delay] : {std::pair(1, 0), std::pair(2, 0), std::pair(1, 1)}) {
    const Config c =
        streamed(labelled("run" + std::to_string(2 * parts + delay), counts), parts, delay);
    EXPECT_THAT(first_rank_counts(c), ::testing::ElementsAre(1, 1, 2, 2, 3, 5));
    EXPECT_THAT(RunDirectory(c.run.out).checkpoint_steps(), ::testing::Contains(5));
  }
}

/// A window after the exchange is counted as a step at the end of the round; one round later it
/// turns out to be none.
TEST_F(LocalRun, MakesUpForAWindowWithoutWeightThatItCountedBehindTheExchange) {
  const auto counts = [](int window, int) { return window != 2; };
  const Config c = streamed(labelled("run", counts), 1, 1);
  EXPECT_THAT(first_rank_counts(c), ::testing::ElementsAre(1, 2, 3, 3, 4, 5));
  EXPECT_THAT(first_rank_counts(labelled("whole", counts)),
              ::testing::ElementsAre(1, 2, 2, 3, 4, 5));
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

/// One rank has all the weight, so the mean of each part is what that rank had when it sent it,
/// plus what it has moved since: its own result.
TEST_F(LocalRun, PartsOfARankThatHasAllTheWeightChangeNothingForIt) {
  Config alone = plain("alone"), c = streamed(local("streamed", 4), 2, 1);
  alone.batch.micro = c.batch.micro = 7;
  expect_runs(alone, 1);
  expect_runs(c, 3);
  EXPECT_TRUE(are_close(c, alone));
  Config apart = streamed(local("apart", 4), 2, 1);
  expect_runs(apart, 3);
  EXPECT_FALSE(are_close(apart, alone)) << "what the comparison is to notice";
}

TEST_F(LocalRun, PartsTravelAfterStepsOfTheirOwn) {
  Config c = streamed(diloco("run", 4), 2, 1);
  c.run.steps = 14;
  c.run.keep = 9;
  c.run.keep_best = false;
  c.dist.compress = distributed::Compression::int8;
  expect_runs(c, 2);
  // Sent after steps 2 and 3 of a round, merged after 3 and 4; at its end the run merges all.
  for (const nlohmann::json& step : steps_of(c)) {
    const int of_round = (step["step"].get<int>() - 1) % 4 + 1;
    EXPECT_EQ(step.contains("wire_bytes"), of_round >= 3 || step["step"] == 14) << step;
  }
  // Every 3 steps: at 3, which all know one round after its end; and the end.
  EXPECT_THAT(RunDirectory(c.run.out).checkpoint_steps(), ::testing::ElementsAre(8, 14));
  EXPECT_EQ(lines_with("eval_loss", c).size(), 4U);
}

/// Ranks' own parameters, and their weights that are not yet sent, are in the checkpoint.
TEST_F(LocalRun, PartsResumeToTheBitWithAsManyRanks) {
  Config c = streamed(diloco("run", 4), 2, 1);
  c.run.steps = 14;
  c.run.keep_best = false;
  expect_runs(c, 2);
  const NamedParameters expected = parameters_of(c);
  expect_runs(c, 2, {"--resume", "8"});
  expect_same_bits(parameters_of(c), expected);
  for (const Program::Result& result : run(c, 3, {"--resume", "8"})) EXPECT_EQ(result.status, 2);
}

TEST_F(LocalRun, TokensOfAllRanksAreCountedWhereTheLastPartWasSent) {
  const Config c = streamed(diloco("streamed", 4), 2, 2), whole = diloco("whole", 4);
  for (const Config& each : {c, whole}) expect_runs(each, 2);
  const auto tokens = [](const Config& of, std::size_t step) {
    return steps_of(of).at(step - 1)["tokens"].get<std::int64_t>();
  };
  EXPECT_EQ(tokens(c, 4), tokens(whole, 4) / 2) << "those of steps 1 and 2";
  EXPECT_EQ(steps_of(c).back()["tokens"], steps_of(whole).back()["tokens"]);
}

TEST_F(LocalRun, TakesTheUsualRatesWhereNoneAreStated) {
  Config usual = plain("usual"), stated = plain("stated"), mean = local("mean", 4);
  usual.dist.local_steps = stated.dist.local_steps = 4;
  const distributed::OuterRates rates = distributed::usual_outer_rates(4);
  stated.dist.outer_lr = rates.lr;
  stated.dist.outer_momentum = rates.momentum;
  for (const Config& each : {usual, stated, mean}) expect_runs(each, 2);
  expect_same_bits(parameters_of(usual), parameters_of(stated));
  EXPECT_FALSE(are_close(usual, parameters_of(mean)));
  EXPECT_THAT(events_of("dist", usual).at(0)["reason"].get<std::string>(),
              HasSubstr("dist.outer = {lr = "));
  EXPECT_TRUE(events_of("dist", stated).empty());
}

/// A run keeps its rates, whatever the default of another build: its record states them. A record
/// without rates comes from a build whose default was the mean.
TEST_F(LocalRun, GoesOnWithTheRatesOfItsRecord) {
  Config usual = plain("usual"), mean = local("mean", 4);
  usual.dist.local_steps = 4;
  for (Config c : {usual, mean}) {
    expect_runs(c, 2);
    const NamedParameters expected = parameters_of(c);
    const RunDirectory directory(c.run.out);
    Config recorded = directory.config();
    EXPECT_TRUE(recorded.dist.outer_lr && recorded.dist.outer_momentum);
    if (recorded.dist.outer_momentum == 0) {
      recorded.dist.outer_lr.reset();
      recorded.dist.outer_momentum.reset();
      write_file_atomically(directory.config_file(), to_toml(recorded));
    }
    for (const bool states : {false, true}) {
      Config again = c;
      again.dist.outer_lr = again.dist.outer_momentum = std::nullopt;
      if (states) {
        again.dist.outer_lr = c.dist.outer_lr.value_or(distributed::usual_outer_rates(4).lr);
        again.dist.outer_momentum =
            c.dist.outer_lr ? 0 : distributed::usual_outer_rates(4).momentum;
      }
      expect_runs(again, 2, {"--resume", "4"});
      expect_same_bits(parameters_of(c), expected);
    }
    Config other = c;
    other.dist.outer_lr = 0.3;
    for (const Program::Result& result : run(other, 2, {"--resume", "4"})) {
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.errors, HasSubstr("dist.outer.lr = 0.3 (was "));
    }
  }
}

}  // namespace
}  // namespace accrue::train
