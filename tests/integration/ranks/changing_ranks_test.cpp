// Ranks that are lost and join during a run: processes that are killed at named points.
#include "integration/ranks/changing_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "train/checkpoint/checkpoint.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using ::testing::AllOf;
using testing::ChangingRanks;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using testing::Fault;
using ::testing::HasSubstr;
using testing::kInterrupted;
using ::testing::Not;
using testing::Pause;
using testing::Words;

/// A point at which a rank is lost, and the step after which the others continue.
struct Loss {
  const char* point;
  std::int64_t count;
  const char* after;
};

std::ostream& operator<<(std::ostream& out, const Loss& loss) {
  return out << loss.point << ' ' << loss.count;
}

/// Each phase of step 6: before the sums of all ranks are complete the others take the step without
/// the victim; after that they have taken it.
constexpr Loss kLosses[]{{"micro-batch", 1, "5"},    {"micro-batch", 2, "5"},
                         {"close-window", 1, "5"},   {"reduce:bucket", 1, "5"},
                         {"reduce:wait", 1, "[56]"}, {"reduce:status", 1, "5"},
                         {"optimizer-step", 1, "6"}, {"evaluation", 1, "6"}};

class LostInAPhase : public ChangingRanks, public ::testing::WithParamInterface<Loss> {};

TEST_P(LostInAPhase, TheOthersGoOnToTheBit) {
  Config alone = fixed("alone");
  alone.batch.tokens = 12 * *alone.model.context;
  train_here(alone);
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(victim);
    const Config c = as(alone, "lost" + std::to_string(victim));
    run_without({{victim, {killed_at(GetParam().point, GetParam().count)}}}, c, alone);
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
    EXPECT_THAT(reasons_of(c),
                ContainsRegex("rank " + std::to_string(victim) +
                              " of 3 is gone; 2 ranks go on after step " + GetParam().after));
  }
}

INSTANTIATE_TEST_SUITE_P(ChangingRanks, LostInAPhase, ::testing::ValuesIn(kLosses));

/// A rank is lost when the first of two buckets of an exchange is summed, or under way.
TEST_F(ChangingRanks, GoOnToTheBitWhereAnExchangeIsTorn) {
  Config alone = fixed("alone");
  alone.model.width = 256;
  alone.model.layers = 1;
  train_here(alone);
  for (const Reduce reduce : {Reduce::overlap, Reduce::end}) {
    Config c = as(alone, std::string(reduce_words.of(reduce)));
    c.dist.reduce = reduce;
    run_without({{1, {killed_at("reduce:bucket", 2)}}}, c, alone);
    EXPECT_THAT(reasons_of(c), HasSubstr("rank 1 of 3 is gone; 2 ranks go on after step 5"));
  }
}

/// No micro-batch of a window in layered order is done before the others, so it begins again.
TEST_F(ChangingRanks, GoOnToTheBitInLayeredOrder) {
  Config alone = fixed("alone");
  alone.batch.tokens = 12 * *alone.model.context;
  train_here(alone);
  int victim = 0;
  for (const char* point : {"segment:forward", "segment:backward", "reduce:bucket"}) {
    SCOPED_TRACE(std::string(point) + " of rank " + std::to_string(victim));
    Config c = as(alone, std::string(point).substr(8));
    c.memory.accumulation = AccumulationOrder::layered;
    if (victim == 1) c.memory.offload = std::filesystem::current_path().string();
    run_without({{victim, {killed_at(point)}}}, c, alone);
    EXPECT_THAT(reasons_of(c), HasSubstr("rank " + std::to_string(victim) +
                                         " of 3 is gone; 2 ranks go on after step 5"));
    ++victim;
  }
}

/// The first rank is lost while its checkpoint is being written.
TEST_F(ChangingRanks, GoOnToTheBitWhereTheFirstIsLostWithACheckpoint) {
  const Config alone = fixed("alone");
  train_here(alone);
  const Config c = as(alone, "lost");
  // The second one, of step 6, for which the update of step 7 waits.
  run_without({{0, {killed_at("checkpoint:write", 2, /*step=*/0)}}}, c, alone);
  EXPECT_THAT(reasons_of(c), ContainsRegex("rank 0 of 3 is gone; 2 ranks go on after step [67]"));
}

/// If the reduction begins when all micro-batches are done, only the lost rank's are lost.
TEST_F(ChangingRanks, KeepTheirOwnMicroBatchesOfAWindow) {
  Config alone = fixed("alone");
  alone.batch.tokens = 32 * *alone.model.context;
  alone.dist.reduce = Reduce::end;
  train_here(alone);
  for (const int victim : {0, 1}) {
    const Config c = as(alone, "lost" + std::to_string(victim));
    run_without({{victim, {killed_at("micro-batch", 3)}}}, c, alone);
    EXPECT_THAT(reasons_of(c), ContainsRegex("2 ranks go on after step 5; of the window under way "
                                             "this rank keeps [56] of [0-9]+ micro-batches"));
  }
}

/// With overlapping sums, too, if the others learn of the loss before their last micro-batch.
TEST_F(ChangingRanks, KeepTheirOwnMicroBatchesWhereSumsOverlap) {
  Config alone = fixed("alone");
  alone.batch.tokens = 32 * *alone.model.context;
  train_here(alone);
  const Config c = as(alone, "lost");
  const Pause paused_0(folder_, "paused0"), paused_2(folder_, "paused2");
  const Pause heard_0(folder_, "heard0"), heard_2(folder_, "heard2");
  const auto hears = [](const std::string& rank) -> std::vector<Fault> {
    return {{.at = "micro-batch", .action = "pause:paused" + rank, .step = kStep, .count = 3},
            {.at = "ranks:lost", .action = "tell:heard" + rank}};
  };
  std::vector<Program> ranks =
      start_all(c, 3, {{0, hears("0")}, {1, {killed_at("micro-batch")}}, {2, hears("2")}});
  for (const Pause* pause : {&paused_0, &paused_2}) pause->wait();
  expect_killed(ranks[1]);
  for (const Pause* heard : {&heard_0, &heard_2}) heard->wait();
  for (const Pause* pause : {&paused_0, &paused_2}) pause->release();
  for (const std::size_t rank : {0U, 2U}) expect_ends_well(ranks[rank]);
  expect_same_run(c, alone);
  EXPECT_THAT(reasons_of(c), ContainsRegex("rank 1 ended, .*of the window under way this rank "
                                           "keeps [56] of [0-9]+ micro-batches"));
}

/// Windows are closed early all the time, and one of the sharing ranks is lost: in the middle of a
/// window, and in the exchange that closes it early.
TEST_F(ChangingRanks, KeepWindowsWhileOneIsLostToTheBit) {
  Config alone = fixed("alone");
  alone.batch.tokens = 48 * *alone.model.context;
  train_here(alone);
  std::vector<Fault> notices;
  for (const std::int64_t step : {2, 4, 6, 8})
    notices.push_back({.at = "micro-batch", .action = "USR2", .step = step, .count = 2});
  for (const auto& [victim, point] : {std::pair{0, "micro-batch"},
                                      {2, "micro-batch"},
                                      {0, "reduce:status"},
                                      {2, "reduce:status"}}) {
    SCOPED_TRACE(std::string(point) + " of rank " + std::to_string(victim));
    const std::int64_t count = std::string(point) == "micro-batch" ? 4 : 1;
    const Config c = as(alone, "kept" + std::to_string(victim) + std::to_string(count));
    run_without({{victim, {killed_at(point, count)}}, {1, notices}}, c, alone);
    EXPECT_FALSE(events_of("checkpoint", c).empty()) << "no window was kept";
    EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  }
}

TEST_F(ChangingRanks, TakeInOneThatComesBack) {
  for (const int victim : {0, 1}) {
    const int other = 1 - victim;
    const Config c = endless_fixed("back" + std::to_string(victim));
    take_new_store();
    const Pause alone(folder_, "alone");
    std::vector<Program> ranks = start_all(
        c, 2, {{victim, {killed_at("micro-batch")}}, {other, {tells_at_step("alone", 8)}}});
    expect_killed(ranks[static_cast<std::size_t>(victim)]);
    alone.wait();
    Program again =
        start_rank(victim, 2, with_faults({{victim, {stops_at_step(3)}}}, victim, command(c)));
    expect_ends(again, kInterrupted);
    expect_ends(ranks[static_cast<std::size_t>(other)], kInterrupted);
    EXPECT_THAT(worlds_of(c), ElementsAre(2, 1, 2));
    expect_bits_of_one_process(c);
  }
}

/// All files of a run with their contents.
std::map<std::string, std::string> files_of(const Config& c) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(c.run.out))
    files[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  return files;
}

/// The first rank is still alive and holds the run directory. When it wakes up, the others are
/// stopped, so that every change there is made by it.
TEST_F(ChangingRanks, GoOnWithoutAFirstRankThatIsFrozen) {
  const Config alone = fixed("alone");
  train_here(alone);
  Config c = as(alone, "frozen");
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.dist.timeout = {4, Duration::Unit::seconds};
  const Pause first(folder_, "paused1"), second(folder_, "paused2");
  const auto pauses = [](const std::string& rank) -> std::vector<Fault> {
    return {{.at = "micro-batch", .action = "pause:paused" + rank, .step = kStep + 2}};
  };
  std::vector<Program> ranks =
      start_all(c, 3,
                {{0, {{.at = "micro-batch", .action = "stop", .step = kStep}}},
                 {1, pauses("1")},
                 {2, pauses("2")}});
  for (const Pause* pause : {&first, &second}) pause->wait();
  for (const std::size_t other : {1U, 2U}) freeze(ranks[other]);
  const auto before = files_of(c);
  ::kill(ranks[0].process(), SIGCONT);
  const Program::Result left = ranks[0].wait();
  EXPECT_EQ(left.status, 1);
  EXPECT_THAT(left.errors, ::testing::AnyOf(HasSubstr("the others went on without this rank"),
                                            HasSubstr("which went on without it, took over")));
  EXPECT_TRUE(files_of(c) == before) << "it wrote into a run that is no longer its own";
  for (const std::size_t other : {1U, 2U}) ::kill(ranks[other].process(), SIGCONT);
  for (const Pause* pause : {&first, &second}) pause->release();
  for (const std::size_t other : {1U, 2U}) expect_ends_well(ranks[other]);
  EXPECT_THAT(worlds_of(c), ElementsAre(3, 2));
  expect_same_run(c, alone);
}

/// One is lost in a step, and another while the two that are left wait. Ranks that come back
/// receive the state from each other.
TEST_F(ChangingRanks, WaitForOthersWhereTooFewAreLeft) {
  const Config alone = fixed("alone");
  train_here(alone);
  Config c = as(alone, "waits");
  c.dist.min_ranks = 3;
  // Rank 0 watches rank 1, so that it knows at once that this one is lost as well.
  const Pause waits(folder_, "waits");
  std::vector<Program> ranks = start_all(
      c, 3,
      {{1, {{.at = "ranks:wait", .action = "pause:waits"}}}, {2, {killed_at("micro-batch")}}});
  expect_killed(ranks[2]);
  waits.wait();
  wait_until([&] { return reasons_of(c).find("the run waits for others") != std::string::npos; });
  EXPECT_THAT(reasons_of(c), ContainsRegex("[a-z]; the run waits for others.*: 2 of the 3 ranks"));
  ::kill(ranks[1].process(), SIGKILL);
  expect_killed(ranks[1]);
  EXPECT_EQ(steps_done(c), kStep - 1);
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), kStep - 1)
      << "what was done is kept";
  std::vector<Program> again;
  for (const int lost : {1, 2}) again.push_back(start_rank(lost, 3, command(c)));
  expect_ends_well(ranks[0]);
  for (Program& rank : again) expect_ends_well(rank);
  EXPECT_THAT(worlds_of(c), ElementsAre(3));
  expect_same_run(c, alone);
}

/// The second look comes after the first one's message.
const Fault kStopsWhileItWaits{.at = "ranks:wait", .action = "TERM", .count = 2};

TEST_F(ChangingRanks, StopWhileTheyWait) {
  Config c = endless_fixed("run");
  c.dist.min_ranks = 2;
  std::vector<Program> ranks =
      start_all(c, 2, {{1, {killed_at("micro-batch")}}, {0, {kStopsWhileItWaits}}});
  expect_killed(ranks[1]);
  const Program::Result result = ranks[0].wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("2 ranks or more, received 1"));
  EXPECT_THAT(reasons_of(c), HasSubstr("the run waits for others"));
}

TEST_F(ChangingRanks, KeepWhatTheyDidOfAWindowWhereTheirWaitingIsEnded) {
  Config alone = fixed("alone");
  alone.batch.tokens = 32 * *alone.model.context;
  alone.dist.reduce = Reduce::end;
  train_here(alone);
  Config c = as(alone, "waits");
  c.dist.min_ranks = 2;
  c.observe.progress = observe::ProgressStyle::lines;
  // Rank 0 is lost, so that the waiting rank is not the one that reports the run.
  std::vector<Program> ranks =
      start_all(c, 2, {{0, {killed_at("micro-batch", 3)}}, {1, {kStopsWhileItWaits}}});
  expect_killed(ranks[0]);
  const Program::Result waited = ranks[1].wait();
  EXPECT_EQ(waited.status, 1);
  EXPECT_THAT(waited.errors, HasSubstr("the run waits for others to join, with a checkpoint that "
                                       "has 8 of 16 micro-batches of the window under way"));
  const RunDirectory run(c.run.out);
  const auto middle = read_checkpoint_state(run.checkpoint(run.checkpoint_steps().back())).middle;
  ASSERT_TRUE(middle);
  EXPECT_EQ(middle->done.size(), 8U);
  expect_runs(c, 1, {"--resume"});
  expect_same_run(c, alone);
}

TEST_F(ChangingRanks, RefuseOneWithAnotherConfigAndGoOn) {
  const Config c = endless_fixed("run");
  const Pause trains(folder_, "trains");
  std::vector<Program> ranks = start_all(c, 2, {{0, {tells_at_step("trains", kStep)}}});
  trains.wait();
  Config other = c;
  other.optim.lr = 0.5;
  std::filesystem::create_directories(folder_ / "other");
  std::ofstream(folder_ / "other/run.toml") << to_toml(other);
  Program stranger =
      start_rank(1, 2, {ACCRUE_PROGRAM, "train", (folder_ / "other/run.toml").string()});
  const Program::Result refused = stranger.wait();
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("optim.lr: '0.1' on rank 0, '0.5' on rank 2"));
  wait_until([&] { return reasons_of(c).find("is refused") != std::string::npos; });
  ::kill(ranks[1].process(), SIGTERM);
  expect_all_end(ranks, kInterrupted);
  EXPECT_THAT(worlds_of(c), ElementsAre(2));
  EXPECT_THAT(reasons_of(c),
              AllOf(HasSubstr("rank 2 of 3 is refused; 2 ranks go on"), Not(HasSubstr("is gone"))));
  expect_bits_of_one_process(c);
}

/// Each process has a separate file with the same name, as on several machines.
TEST_F(ChangingRanks, RefuseOneWithOtherDataAtTheStartAndLater) {
  Config c = endless_fixed("run");
  c.data.train = {"text.txt"};
  const auto change_text = [&] { std::ofstream(folder_ / "text.txt", std::ios::in) << "L"; };
  {
    Program first = start_rank(0, 2, command(c));
    change_text();
    Program second = start_rank(1, 2, command(c));
    for (Program* rank : {&first, &second}) {
      const Program::Result refused = rank->wait();
      EXPECT_EQ(refused.status, 2);
      EXPECT_THAT(refused.errors, ContainsRegex("data: '[^']+' on rank 0, '[^']+' on rank 1"));
    }
    EXPECT_FALSE(RunDirectory(c.run.out).holds_run());
  }
  take_new_store();
  std::ofstream(folder_ / "text.txt", std::ios::in) << "l";
  const Pause trains(folder_, "trains");
  std::vector<Program> ranks = start_all(c, 2, {{0, {tells_at_step("trains", kStep)}}});
  trains.wait();
  change_text();
  const Program::Result refused = start_rank(1, 2, command(c)).wait();
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, ContainsRegex("data: '[^']+' on rank 0, '[^']+' on rank 2"));
  wait_until([&] { return reasons_of(c).find("is refused") != std::string::npos; });
  ::kill(ranks[0].process(), SIGTERM);
  expect_all_end(ranks, kInterrupted);
}

/// A rank whose messages contradict the others' knowledge of it ends, and the others continue with
/// the results that they would have without it.
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
    take_new_store();
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
  Config c = endless_fixed("run");
  c.dist.compress = distributed::Compression::bf16;
  c.precision.accumulate = accum::Accumulation::fp32;
  std::vector<Program> ranks = start_all(c, 2, {{1, {killed_at("micro-batch")}}});
  expect_killed(ranks[1]);
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
