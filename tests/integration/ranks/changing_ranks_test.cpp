// Ranks that die and come while a run goes on: real processes and real kills.
#include "integration/ranks/changing_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using testing::ChangingRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Words;

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

/// Windows are closed early all the time, when one of those who share them is gone.
TEST_F(ChangingRanks, KeepWindowsWhileOneIsLostToTheBit) {
  Config alone = fixed("alone", 6);
  alone.batch.tokens = 64 * *alone.model.context;
  expect_runs(alone, 1);
  for (const int victim : {0, 2}) {
    Config c = alone;
    c.run.out = (folder_ / ("kept" + std::to_string(victim))).string();
    end_host();
    start_host();
    std::vector<Program> ranks = start_all(c, 3);
    wait_for_step(c, 1);
    constexpr int notices = 20;
    for (int notice = 0; notice < notices; ++notice) {
      if (notice == notices / 2) kill_it(ranks[static_cast<std::size_t>(victim)]);
      ::kill(ranks[1].process(), SIGUSR2);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (int rank = 0; rank < 3; ++rank)
      if (rank != victim) expect_ends_well(ranks[static_cast<std::size_t>(rank)]);
    EXPECT_FALSE(events_of("checkpoint", c).empty()) << "no window was kept";
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
    expect_same_run(c, alone);
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

/// All files of a run with their contents.
std::map<std::string, std::string> files_of(const Config& c) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(c.run.out))
    files[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  return files;
}

/// The first rank lives on with its hold on the run directory. When it wakes up, the others are
/// stopped, so that whatever changes there is its doing.
TEST_F(ChangingRanks, GoOnWithoutAFirstRankThatIsFrozen) {
  const Config alone = fixed("alone", 60);
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "frozen").string();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.dist.timeout = {4, Duration::Unit::seconds};
  std::vector<Program> ranks = start_all(c, 3);
  wait_for_step(c, 5);
  ::kill(ranks[0].process(), SIGSTOP);
  wait_until([&] { return worlds_of(c).size() > 1; });
  for (const int other : {1, 2}) ::kill(ranks[static_cast<std::size_t>(other)].process(), SIGSTOP);
  const auto before = files_of(c);
  ::kill(ranks[0].process(), SIGCONT);
  const Program::Result left = ranks[0].wait();
  EXPECT_EQ(left.status, 1);
  EXPECT_THAT(left.errors, ::testing::AnyOf(HasSubstr("the others went on without this rank"),
                                            HasSubstr("which went on without it, took over")));
  EXPECT_TRUE(files_of(c) == before) << "it wrote into a run that is no longer its own";
  for (const int other : {1, 2}) ::kill(ranks[static_cast<std::size_t>(other)].process(), SIGCONT);
  for (const int other : {1, 2}) expect_ends_well(ranks[static_cast<std::size_t>(other)]);
  EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  expect_same_run(c, alone);
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
