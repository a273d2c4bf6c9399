// Ranks whose machines ask them to be slow, to pause, to write a checkpoint, or to stop.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using ::testing::AllOf;
using testing::DistributedRun;
using ::testing::HasSubstr;
using testing::kInterrupted;
using testing::Words;

class LimitedRanks : public DistributedRun {
 protected:
  /// A run that ends by a signal alone; its parameters are those of any run of as many steps.
  Config endless(const std::string& out) const {
    Config c = small(out);
    c.run.steps = 100000;
    c.run.checkpoint_every = {100000, Duration::Unit::steps};
    c.run.eval_every.reset();
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
  }
  /// The override by which a rank has this limit.
  std::string limit(const std::string& file, const std::string& rest) const {
    return R"(--run.limits=[{file = ")" + path(file) + R"(", )" + rest + R"(, every = "0.1 s"}])";
  }
  std::vector<Program> start_limited(const Config& c, const Words& first,
                                     const Words& second) const {
    const std::vector<Words> words{command(c, first), command(c, second)};
    return accrue::testing::start_ranks(
        folder_, 2, 2, [&](int rank) { return words[static_cast<std::size_t>(rank)]; });
  }
  /// Whether an event of this name has these words in its reason.
  static bool is_told(const std::string& name, const std::string& words, const Config& c) {
    return std::ranges::any_of(events_of(name, c), [&](const nlohmann::json& event) {
      return event["reason"].get<std::string>().find(words) != std::string::npos;
    });
  }
  static void wait_for_event(const std::string& name, const std::string& words, const Config& c) {
    accrue::testing::wait_until([&] { return is_told(name, words, c); });
  }
  static void expect_interrupted(std::vector<Program>& ranks) {
    for (Program& rank : ranks) {
      const Program::Result result = rank.wait();
      EXPECT_EQ(result.status, kInterrupted) << result.errors;
    }
  }
  /// Compares with a run of one process, without limits, that ends where `c` did.
  void expect_bits_of_one_process(const Config& c) const {
    Config alone = c;
    alone.run.out = path("alone");
    alone.run.steps = steps_of(c).back()["step"].get<std::int64_t>();
    expect_runs(alone, 1);
    expect_same_bits(parameters_of(c), parameters_of(alone));
  }
};

constexpr const char* kPause = R"(above = 85, do = "pause")";

TEST_F(LimitedRanks, ARankThatPausesLeavesItsShareToTheOthersAndTheBitsStay) {
  const Config c = endless("run");
  write("temp", "40");
  std::vector<Program> ranks = start_limited(c, {}, {limit("temp", kPause)});
  wait_for_metrics(c);
  write("temp", "90");
  wait_for_event("leases", "4 micro-batches by rank 4 + 0", c);
  EXPECT_TRUE(is_told("leases", ", rank 1 pauses", c));
  EXPECT_TRUE(is_told("limits", "rank 1: " + path("temp") + " is 90, above 85: paused", c));
  write("temp", "40");
  wait_for_event("limits", "is 40: this limit is over", c);
  accrue::testing::wait_until([&] {
    return events_of("leases", c).back()["reason"].get<std::string>().find("pauses") ==
           std::string::npos;
  });
  ::kill(ranks[0].process(), SIGTERM);
  expect_interrupted(ranks);
  expect_bits_of_one_process(c);
}

/// The first rank has no share, and still writes all that is written.
TEST_F(LimitedRanks, TheFirstRankMayPauseToo) {
  const Config c = endless("run");
  write("temp", "90");
  std::vector<Program> ranks = start_limited(c, {limit("temp", kPause)}, {});
  wait_for_metrics(c);
  EXPECT_TRUE(is_told("leases", "4 micro-batches by rank 0 + 4", c));
  ::kill(ranks[1].process(), SIGTERM);
  expect_interrupted(ranks);
  EXPECT_EQ(steps_of(c).front()["micro_batches"], 4);
  expect_bits_of_one_process(c);
}

/// They go on meeting while they wait: a signal to one ends both.
TEST_F(LimitedRanks, WaitTogetherWhereNobodyMayWorkOrOneIsNeeded) {
  Config pipeline = endless("pipeline"), equal = endless("equal");
  pipeline.dist.stages = 2;
  equal.dist.shares = Shares::equal;
  for (const Config& c : {endless("shared"), equal, pipeline}) {
    const bool is_shared = c.dist.stages == 1 && c.dist.shares == Shares::speed;
    const Words first = is_shared ? Words{limit("temp", kPause)} : Words{};
    write("temp", "40");
    std::vector<Program> ranks = start_limited(c, first, {limit("temp", kPause)});
    wait_for_metrics(c);
    write("temp", "90");
    wait_for_event("limits", "rank 1: " + path("temp") + " is 90", c);
    if (is_shared) wait_for_event("limits", path("temp") + " is 90", c);
    // Once both wait no step is added while they meet a few times.
    std::size_t before = 0;
    accrue::testing::wait_until([&] {
      const std::size_t now = steps_of(c).size();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return std::exchange(before, now) == now && before > 0;
    });
    ::kill(ranks[1].process(), SIGTERM);
    expect_interrupted(ranks);
    EXPECT_EQ(steps_of(c).size(), before) << "no further step is taken";
    EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), steps_of(c).back()["step"]);
  }
}

/// It waits alone then, and still for its own limit.
TEST_F(LimitedRanks, ARankThatIsLostWhileAllWaitTakesNobodyWithIt) {
  const Config c = endless("run");
  write("temp", "90");
  const Words words{limit("temp", kPause)};
  std::vector<Program> ranks = start_limited(c, words, words);
  wait_for_event("limits", "rank 1: " + path("temp") + " is 90", c);
  ::kill(ranks[1].process(), SIGKILL);
  wait_for_event("dist", "rank 1 of 2 is gone; 1 rank goes on", c);
  EXPECT_TRUE(steps_of(c).empty());
  write("temp", "40");
  wait_for_metrics(c);
  ::kill(ranks[0].process(), SIGTERM);
  EXPECT_EQ(ranks[0].wait().status, kInterrupted);
  expect_bits_of_one_process(c);
}

TEST_F(LimitedRanks, AnyOfThemAsksForACheckpointAndToStop) {
  const Config c = endless("run");
  const std::string limits = R"(--run.limits=[{file = ")" + path("notice") +
                             R"(", do = "checkpoint", every = "0.1 s"}, {file = ")" + path("end") +
                             R"(", do = "stop", every = "0.1 s"}])";
  std::vector<Program> ranks = start_limited(c, {}, {limits});
  wait_for_metrics(c);
  write("notice", "");
  const RunDirectory directory(c.run.out);
  accrue::testing::wait_until([&] { return !directory.checkpoint_steps().empty(); });
  write("end", "");
  expect_interrupted(ranks);
  EXPECT_TRUE(is_told("limits", "rank 1: " + path("notice") + " is there", c));
  EXPECT_EQ(directory.checkpoint_steps().back(), steps_of(c).back()["step"]);
}

/// While all wait there is no window whose close could tell of it.
TEST_F(LimitedRanks, OneThatPausesAllHasItsCheckpointWritten) {
  Config c = endless("run");
  c.dist.shares = Shares::equal;
  const std::string of = R"({file = ")" + path("temp") + R"(", above = 85, every = "0.1 s", do = )";
  write("temp", "40");
  std::vector<Program> ranks =
      start_limited(c, {}, {"--run.limits=[" + of + R"("pause"}, )" + of + R"("checkpoint"}])"});
  wait_for_metrics(c);
  write("temp", "90");
  const RunDirectory directory(c.run.out);
  accrue::testing::wait_until([&] { return !directory.checkpoint_steps().empty(); });
  ::kill(ranks[0].process(), SIGTERM);
  expect_interrupted(ranks);
}

TEST_F(LimitedRanks, ALimitThatCannotBeReadEndsAllBeforeTheyBegin) {
  const Config c = endless("run");
  std::vector<Program> ranks = start_limited(c, {}, {limit("nothing", kPause)});
  const Program::Result first = ranks[0].wait(), second = ranks[1].wait();
  EXPECT_EQ(second.status, 2);
  EXPECT_THAT(second.errors, AllOf(HasSubstr("run.limits"), HasSubstr("nothing above 85")));
  EXPECT_NE(first.status, 0);
  EXPECT_THAT(first.errors, HasSubstr("run.limits"));
  EXPECT_FALSE(std::filesystem::exists(c.run.out));
}

/// Micro-batches take as long on both ranks, of which the second rests as long as it works.
TEST_F(LimitedRanks, ARankThatIsToBeSlowHasASmallerShareAndTheBitsStay) {
  Config c = small("run");
  c.run.eval_every.reset();
  c.precision.accumulate = accum::Accumulation::fixed;
  c.run.steps = 6;
  c.batch.tokens = 32 * *c.model.context;
  c.batch.micro = 1;
  write("temp", "90");
  Config slow = c;
  slow.run.out = path("slow");
  slow.run.limits = {{.file = path("temp"), .above = 85}};
  const std::string files[]{command(c)[2], command(slow)[2]};
  Config in_the_same_folder = slow;
  in_the_same_folder.run.out = c.run.out;
  std::ofstream(files[1]) << to_toml(in_the_same_folder);
  for (const Program::Result& result : accrue::testing::run_ranks(folder_, 2, 2, [&](int rank) {
         return Words{ACCRUE_SLOW_RANK, files[rank], "20"};
       }))
    EXPECT_EQ(result.status, 0) << result.errors;
  const std::vector<nlohmann::json> leases = events_of("leases", c);
  ASSERT_FALSE(leases.empty());
  long all = 0, first = 0, second = 0;
  const std::string reason = leases.back()["reason"];
  ASSERT_EQ(
      std::sscanf(reason.c_str(), "%ld micro-batches by rank %ld + %ld", &all, &first, &second), 3);
  EXPECT_THAT(reason, HasSubstr(", rank 1 works 50% of the time"));
  EXPECT_EQ(all, 32);
  EXPECT_NEAR(static_cast<double>(second), 32.0 / 3, 4) << "a third, as speeds are measured";
  expect_bits_of_one_process(c);
}

}  // namespace
}  // namespace accrue::train
