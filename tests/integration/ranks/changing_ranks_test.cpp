// Ranks that die and come while a run goes on: real processes and real kills.
#include "integration/ranks/changing_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include "train/checkpoint/checkpoint.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using ::testing::AllOf;
using testing::ChangingRanks;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
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
    EXPECT_THAT(reasons_of(c), ContainsRegex("2 ranks go on after step [0-9]+; of the "
                                             "window under way this rank keeps [56] of "
                                             "[0-9]+ micro-batches"));
  }
}

/// With sums that overlap, too, where a rank is lost early enough for the others to hear of it
/// before their last micro-batch: at the begin of a window of two seconds.
TEST_F(ChangingRanks, KeepTheirOwnMicroBatchesWhereSumsOverlap) {
  Config alone = fixed("alone", 6);
  alone.batch.tokens = 128 * *alone.model.context;
  expect_runs(alone, 1);
  micro_batch_ms_ = 100;
  const Config c = run_without(1, alone);
  EXPECT_THAT(reasons_of(c), ContainsRegex("rank 1 ended, .*of the window under way this rank "
                                           "keeps 2[0-9] of [0-9]+ micro-batches"));
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
  freeze(ranks[0]);
  wait_until([&] { return worlds_of(c).size() > 1; });
  for (const int other : {1, 2}) freeze(ranks[static_cast<std::size_t>(other)]);
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

/// Those that come back get the state one from the other.
TEST_F(ChangingRanks, WaitForOthersWhereTooFewAreLeft) {
  const Config alone = fixed("alone", 60);
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "waits").string();
  c.dist.min_ranks = 3;
  std::vector<Program> ranks = start_all(c, 3);
  wait_for_step(c, 5);
  for (const int lost : {1, 2}) kill_it(ranks[static_cast<std::size_t>(lost)]);
  wait_until([&] { return reasons_of(c).find("the run waits for others") != std::string::npos; });
  EXPECT_THAT(reasons_of(c), ContainsRegex("[a-z]; the run waits for others"));
  // It is told once, when the first of the two is known to be lost, or both are.
  EXPECT_THAT(reasons_of(c), ::testing::AnyOf(HasSubstr("1 of the 3 ranks are there"),
                                              HasSubstr("2 of the 3 ranks are there")));
  const std::int64_t step = steps_done(c);
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), step) << "what was done is kept";
  std::vector<Program> again;
  for (const int lost : {1, 2}) again.push_back(start_rank(lost, 3, slow(c)));
  expect_ends_well(ranks[0]);
  for (Program& rank : again) expect_ends_well(rank);
  EXPECT_THAT(worlds_of(c), ElementsAre(3));
  expect_same_run(c, alone);
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

TEST_F(ChangingRanks, KeepWhatTheyDidOfAWindowWhereTheirWaitingIsEnded) {
  Config alone = fixed("alone", 30);
  alone.batch.tokens = 32 * *alone.model.context;
  alone.dist.reduce = Reduce::end;
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "waits").string();
  c.dist.min_ranks = 2;
  c.observe.progress = observe::ProgressStyle::lines;
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  kill_it(ranks[0]);  // so that who waits is not the one that tells of the run
  const auto done_of_last = [run = RunDirectory(c.run.out)] {
    const auto last = run.checkpoint(run.checkpoint_steps().back());
    const auto middle = read_checkpoint_state(last).middle;
    return middle ? middle->done.size() : 0;
  };
  wait_until([&] { return done_of_last() > 0; });
  ::kill(ranks[1].process(), SIGTERM);
  const Program::Result waited = ranks[1].wait();
  EXPECT_EQ(waited.status, 1);
  EXPECT_THAT(waited.errors, HasSubstr("the run waits for others to join, with a checkpoint that "
                                       "has 8 of 16 micro-batches of the window under way"));
  EXPECT_EQ(done_of_last(), 8U);
  expect_runs(c, 1, {"--resume"});
  expect_same_run(c, alone);
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
  EXPECT_THAT(reasons_of(c),
              AllOf(HasSubstr("rank 2 of 3 is refused; 2 ranks go on"), Not(HasSubstr("is gone"))));
}

/// Each process has a file of its own under one name, as machines do.
TEST_F(ChangingRanks, RefuseOneWithOtherDataAtTheStartAndLater) {
  Config c = fixed("run", 200);
  c.data.train = {"text.txt"};
  const auto change_text = [&] { std::ofstream(folder_ / "text.txt", std::ios::in) << "L"; };
  {
    Program first = start_rank(0, 2, slow(c));
    change_text();
    Program second = start_rank(1, 2, slow(c));
    for (Program* rank : {&first, &second}) {
      const Program::Result refused = rank->wait();
      EXPECT_EQ(refused.status, 2);
      EXPECT_THAT(refused.errors, ContainsRegex("data: '[^']+' on rank 0, '[^']+' on rank 1"));
    }
    EXPECT_FALSE(RunDirectory(c.run.out).holds_run());
  }
  end_host();
  start_host();
  std::ofstream(folder_ / "text.txt", std::ios::in) << "l";
  std::vector<Program> ranks = start_all(c, 2);
  wait_for_step(c, 5);
  change_text();
  const Program::Result refused = start_rank(1, 2, slow(c)).wait();
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, ContainsRegex("data: '[^']+' on rank 0, '[^']+' on rank 2"));
  for (Program& rank : ranks) expect_ends_well(rank);
  EXPECT_EQ(steps_done(c), 200);
}

/// A rank that says something else than the others know of it ends, and they go on to what they
/// would have had without it.
TEST_F(ChangingRanks, RefuseOneThatLiesWhileTheyTrainAndGoOn) {
  Config alone = fixed("alone", 30);
  alone.batch.max_quarantined = 0;
  alone.dist.shares = Shares::equal;
  Program honest = start_rank(0, 1, {ACCRUE_LYING_RANK, command(alone)[2], "nothing"});
  expect_ends_well(honest);
  for (const auto& [liar, lie, message] : {std::tuple{1, "weight", "of rank 1, whose samples have"},
                                           {0, "weight", "of rank 0, whose samples have"},
                                           {1, "gradient", "without a finite loss and gradient"}}) {
    SCOPED_TRACE(::testing::Message() << lie << " of rank " << liar);
    Config c = alone;
    c.run.out = (folder_ / (std::string(lie) + std::to_string(liar))).string();
    end_host();
    start_host();
    std::vector<Program> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.push_back(
          start_rank(rank, 3, {ACCRUE_LYING_RANK, command(c)[2], rank == liar ? lie : "nothing"}));
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != liar) {
        expect_ends_well(ranks[static_cast<std::size_t>(rank)]);
        continue;
      }
      const Program::Result refused = ranks[static_cast<std::size_t>(rank)].wait();
      EXPECT_EQ(refused.status, 1);
      EXPECT_THAT(refused.errors, HasSubstr(message));
    }
    EXPECT_THAT(reasons_of(c), HasSubstr(message));
    EXPECT_THAT(reasons_of(c), HasSubstr("rank " + std::to_string(liar) + " of 3 is gone"));
    EXPECT_EQ(worlds_of(c).back(), 2);
    EXPECT_TRUE(last_model(c) == last_model(alone));
  }
}

/// The first one is lost between a window's close and its own step, which the others take: that
/// step's line is theirs to write.
TEST_F(ChangingRanks, TellTheStepInWhichTheFirstIsLost) {
  Config alone = fixed("alone", 20);
  Program honest = start_rank(0, 1, {ACCRUE_LYING_RANK, command(alone)[2], "nothing"});
  expect_ends_well(honest);
  Config c = alone;
  c.run.out = (folder_ / "lost").string();
  end_host();
  start_host();
  std::vector<Program> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(
        start_rank(rank, 3, {ACCRUE_LYING_RANK, command(c)[2], rank == 0 ? "death" : "nothing"}));
  EXPECT_NE(ranks[0].wait().status, 0);
  for (int rank : {1, 2}) expect_ends_well(ranks[static_cast<std::size_t>(rank)]);
  EXPECT_THAT(reasons_of(c), HasSubstr("2 ranks go on after step 10"));
  expect_same_steps(c, alone);
  EXPECT_TRUE(last_model(c) == last_model(alone));
}

TEST_F(ChangingRanks, RefuseOneWhoseParametersHaveOtherShapes) {
  const Config c = fixed("run", 30);
  std::vector<Program> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(
        start_rank(rank, 3, {ACCRUE_LYING_RANK, command(c)[2], rank == 1 ? "shapes" : "nothing"}));
  for (Program& rank : ranks) {
    const Program::Result refused = rank.wait();
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.errors, ContainsRegex("shapes of the parameters: '[0-9a-f]+' on "
                                              "rank 0, '[0-9a-f]+' on rank 1; try"));
  }
  EXPECT_FALSE(RunDirectory(c.run.out).holds_run());
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
