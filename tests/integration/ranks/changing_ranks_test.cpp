// Ranks that die and come while a run goes on: real processes and real kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using testing::DistributedRun;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kInterrupted;
using testing::Words;

/// Runs whose store lives on whichever rank dies, as a launcher's agent lets it.
class ChangingRanks : public DistributedRun {
 protected:
  void SetUp() override {
    DistributedRun::SetUp();
    start_host();
  }
  void TearDown() override {
    end_host();
    DistributedRun::TearDown();
  }

  void start_host() {
    port_ = std::to_string(accrue::testing::free_port());
    std::filesystem::create_directories(folder_ / "host");
    host_.emplace(folder_ / "host", Words{ACCRUE_STORE_HOST, port_});
  }
  void end_host() {
    ::kill(host_->process(), SIGKILL);
    host_->wait();
  }

  /// Sums of integers, so that the bits of the result depend on nothing but the samples.
  Config fixed(const std::string& out, std::int64_t steps) const {
    Config c = small(out);
    c.precision.accumulate = accum::Accumulation::fixed;
    c.run.steps = steps;
    c.run.eval_every = Duration{static_cast<double>(steps) / 2, Duration::Unit::steps};
    c.dist.timeout = {30, Duration::Unit::seconds};
    return c;
  }

  /// Rank `rank` of `world`, in a folder of its own.
  Program start_rank(int rank, int world, const Words& words) {
    const std::filesystem::path own = folder_ / ("process" + std::to_string(++started_));
    std::filesystem::create_directories(own);
    Words command{"/usr/bin/env",
                  "RANK=" + std::to_string(rank),
                  "WORLD_SIZE=" + std::to_string(world),
                  "LOCAL_RANK=0",
                  "MASTER_ADDR=127.0.0.1",
                  "MASTER_PORT=" + port_,
                  "TORCHELASTIC_USE_AGENT_STORE=True",
                  "OMP_NUM_THREADS=1"};
    command.insert(command.end(), words.begin(), words.end());
    return {own, std::move(command)};
  }
  /// Ranks whose micro-batches take a moment, so that there is time to kill some of them.
  Words slow(const Config& c) const { return {ACCRUE_SLOW_RANK, command(c)[2], "20"}; }
  std::vector<Program> start_all(const Config& c, int world) {
    const Words words = slow(c);
    std::vector<Program> ranks;
    for (int rank = 0; rank < world; ++rank) ranks.push_back(start_rank(rank, world, words));
    return ranks;
  }

  static void kill_it(Program& rank) {
    ::kill(rank.process(), SIGKILL);
    EXPECT_NE(rank.wait().status, 0) << "it was not killed in time";
  }
  static void expect_ends_well(Program& rank) {
    const Program::Result result = rank.wait();
    EXPECT_EQ(result.status, 0) << result.errors;
  }
  static std::int64_t steps_done(const Config& c) {
    const auto steps = steps_of(c);
    return steps.empty() ? 0 : steps.back()["step"].get<std::int64_t>();
  }
  static void wait_for_step(const Config& c, std::int64_t step) {
    wait_until([&] { return steps_done(c) >= step; });
  }
  static std::vector<std::int64_t> worlds_of(const Config& c) {
    std::vector<std::int64_t> worlds;
    for (const nlohmann::json& step : steps_of(c))
      if (worlds.empty() || worlds.back() != step["world"]) worlds.push_back(step["world"]);
    return worlds;
  }
  static std::string reasons_of(const Config& c) {
    std::string all;
    for (const nlohmann::json& event : events_of("dist", c))
      all += event["reason"].get<std::string>() + "\n";
    return all;
  }
  /// Each step is there once, with the samples and the loss of the run that nobody disturbed.
  static void expect_same_run(const Config& c, const Config& undisturbed) {
    expect_same_bits(parameters_of(c), parameters_of(undisturbed));
    const auto steps = steps_of(c), expected = steps_of(undisturbed);
    ASSERT_EQ(steps.size(), expected.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* key : {"step", "samples", "tokens", "weight", "grad_norm", "batch_samples"})
        EXPECT_EQ(steps[i][key], expected[i][key]) << key << " of step " << i + 1;
  }
  /// The run of three ranks of which `victim` is killed, with a store of its own.
  Config run_without(int victim, const Config& alone) {
    Config c = alone;
    c.run.out = (folder_ / ("lost" + std::to_string(victim))).string();
    end_host();
    start_host();
    std::vector<Program> ranks = start_all(c, 3);
    wait_for_step(c, 5);
    kill_it(ranks[static_cast<std::size_t>(victim)]);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != victim) expect_ends_well(ranks[static_cast<std::size_t>(rank)]);
    expect_same_run(c, alone);
    return c;
  }

 private:
  std::string port_;
  std::optional<Program> host_;
  int started_ = 0;
};

TEST_F(ChangingRanks, GoOnWhereOneIsLostToTheBit) {
  const Config alone = fixed("alone", 60);
  expect_runs(alone, 1);
  for (const int victim : {0, 1, 2}) {
    const Config c = run_without(victim, alone);
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
    EXPECT_THAT(reasons_of(c), HasSubstr("rank " + std::to_string(victim) +
                                         " of 3 is gone; 2 ranks go on after step "));
  }
}

/// With a reduction that begins when all micro-batches are done, none of them is lost with another.
TEST_F(ChangingRanks, KeepTheirOwnMicroBatchesOfAWindow) {
  Config alone = fixed("alone", 30);
  alone.batch.tokens = 32 * *alone.model.context;
  alone.dist.reduce = Reduce::end;
  expect_runs(alone, 1);
  for (const int victim : {0, 1}) {
    const Config c = run_without(victim, alone);
    EXPECT_THAT(reasons_of(c), ::testing::ContainsRegex("2 ranks go on after step [0-9]+; of the "
                                                        "window under way this rank keeps [56] of "
                                                        "[0-9]+ micro-batches"));
  }
}

TEST_F(ChangingRanks, TakeInOneThatComesBack) {
  const Config alone = fixed("alone", 160);
  expect_runs(alone, 1);
  for (const int victim : {0, 1}) {
    Config c = alone;
    c.run.out = (folder_ / ("back" + std::to_string(victim))).string();
    end_host();
    start_host();
    std::vector<Program> ranks = start_all(c, 2);
    wait_for_step(c, 5);
    kill_it(ranks[static_cast<std::size_t>(victim)]);
    wait_until([&] { return worlds_of(c).size() > 1; });
    Program again = start_rank(victim, 2, slow(c));
    expect_ends_well(ranks[static_cast<std::size_t>(1 - victim)]);
    expect_ends_well(again);
    EXPECT_THAT(worlds_of(c), ElementsAre(2, 1, 2));
    expect_same_run(c, alone);
  }
}

TEST_F(ChangingRanks, WaitForOthersWhereTooFewAreLeft) {
  Config c = fixed("run", 120);
  c.dist.min_ranks = 2;
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  kill_it(ranks[1]);
  wait_until([&] { return reasons_of(c).find("the run waits for others") != std::string::npos; });
  EXPECT_THAT(reasons_of(c), HasSubstr("1 of the 2 ranks are there"));
  const std::int64_t step = steps_done(c);
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), step) << "what was done is kept";
  Program again = start_rank(1, 2, slow(c));
  expect_ends_well(ranks[0]);
  expect_ends_well(again);
  EXPECT_THAT(worlds_of(c), ElementsAre(2));
  EXPECT_EQ(steps_done(c), 120);
}

TEST_F(ChangingRanks, StopWhileTheyWait) {
  Config c = fixed("run", 100000);
  c.dist.min_ranks = 2;
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  kill_it(ranks[1]);
  wait_until([&] { return reasons_of(c).find("the run waits for others") != std::string::npos; });
  ::kill(ranks[0].process(), SIGTERM);
  const Program::Result result = ranks[0].wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("2 ranks or more, received 1"));
}

TEST_F(ChangingRanks, RefuseOneWithAnotherConfigAndGoOn) {
  Config c = fixed("run", 200);
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  Config other = c;
  other.optim.lr = 0.5;
  std::filesystem::create_directories(folder_ / "other");
  std::ofstream(folder_ / "other/run.toml") << to_toml(other);
  Program stranger =
      start_rank(1, 2, {ACCRUE_SLOW_RANK, (folder_ / "other/run.toml").string(), "20"});
  const Program::Result refused = stranger.wait();
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("optim.lr: '0.1' on rank 0, '0.5' on rank 2"));
  for (Program& rank : ranks) expect_ends_well(rank);
  EXPECT_EQ(worlds_of(c).back(), 2);
  EXPECT_EQ(steps_done(c), 200);
}

TEST_F(ChangingRanks, EndWithTheFirstThatIsLostWhereAllAreNeeded) {
  Config c = fixed("run", 100000);
  c.dist.compress = distributed::Compression::bf16;
  c.precision.accumulate = accum::Accumulation::fp32;
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  kill_it(ranks[1]);
  const Program::Result result = ranks[0].wait();
  EXPECT_EQ(result.status, 1) << "what compression leaves out is on each rank its own";
  EXPECT_THAT(result.errors, HasSubstr("no sign of life from rank 1"));
}

TEST_F(ChangingRanks, RefuseMoreThanThereAre) {
  Config c = fixed("run", 10);
  c.dist.min_ranks = 3;
  for (Program& rank : start_all(c, 2)) {
    const Program::Result result = rank.wait();
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, HasSubstr("dist.min_ranks with 2 ranks"));
  }
}

}  // namespace
}  // namespace accrue::train
