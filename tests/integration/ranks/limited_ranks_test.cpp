// Ranks whose machines ask them to slow down, to pause, to write a checkpoint, or to stop.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "integration/ranks/faulty_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Pause;
using accrue::testing::Program;
using ::testing::AllOf;
using testing::Fault;
using testing::FaultsOfRanks;
using ::testing::HasSubstr;
using testing::kInterrupted;
using testing::Words;

class LimitedRanks : public testing::FaultyRanks {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
  }
  /// The override that gives a rank this limit.
  std::string limit(const std::string& file, const std::string& rest) const {
    return R"(--run.limits=[{file = ")" + path(file) + R"(", )" + rest + R"(, every = "0.1 s"}])";
  }
  std::vector<Program> start_limited(const Config& c, const Words& first, const Words& second,
                                     const FaultsOfRanks& faults = {}) const {
    const std::vector<Words> words{command(c, first), command(c, second)};
    return accrue::testing::start_ranks(folder_, 2, 2, [&](int rank) {
      return with_faults(faults, rank, words[static_cast<std::size_t>(rank)]);
    });
  }
  /// Whether an event with this name has these words in its reason.
  static bool is_told(const std::string& name, const std::string& words, const Config& c) {
    return std::ranges::any_of(events_of(name, c), [&](const nlohmann::json& event) {
      return event["reason"].get<std::string>().find(words) != std::string::npos;
    });
  }
  static void wait_for_event(const std::string& name, const std::string& words, const Config& c) {
    accrue::testing::wait_until([&] { return is_told(name, words, c); });
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
  expect_all_end(ranks, kInterrupted);
  expect_bits_of_one_process(c);
}

/// The first rank has no share, and still writes all files.
TEST_F(LimitedRanks, TheFirstRankMayPauseToo) {
  const Config c = endless("run");
  write("temp", "90");
  std::vector<Program> ranks = start_limited(c, {limit("temp", kPause)}, {});
  wait_for_metrics(c);
  EXPECT_TRUE(is_told("leases", "4 micro-batches by rank 0 + 4", c));
  ::kill(ranks[1].process(), SIGTERM);
  expect_all_end(ranks, kInterrupted);
  EXPECT_EQ(steps_of(c).front()["micro_batches"], 4);
  expect_bits_of_one_process(c);
}

/// They keep meeting while they wait: a signal to one ends both.
TEST_F(LimitedRanks, WaitTogetherWhereNobodyMayWorkOrOneIsNeeded) {
  Config pipeline = endless("pipeline"), equal = endless("equal");
  pipeline.dist.stages = 2;
  equal.dist.shares = Shares::equal;
  for (const Config& c : {endless("shared"), equal, pipeline}) {
    const bool is_shared = c.dist.stages == 1 && c.dist.shares == Shares::speed;
    const Words first = is_shared ? Words{limit("temp", kPause)} : Words{};
    write("temp", "40");
    // While both wait no step is added: they meet repeatedly until one is told to stop.
    const Pause waits(folder_, "waits");
    std::vector<Program> ranks =
        start_limited(c, first, {limit("temp", kPause)},
                      {{1,
                        {{.at = "limits:wait", .action = "pause:waits", .count = 2},
                         {.at = "limits:wait", .action = "TERM", .count = 5}}}});
    wait_for_metrics(c);
    write("temp", "90");
    waits.wait();
    EXPECT_TRUE(is_told("limits", "rank 1: " + path("temp") + " is 90", c));
    const std::size_t before = steps_of(c).size();
    waits.release();
    expect_all_end(ranks, kInterrupted);
    EXPECT_EQ(steps_of(c).size(), before) << "no further step is taken";
    EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), steps_of(c).back()["step"]);
  }
}

/// The remaining rank then waits alone, and still for its own limit.
TEST_F(LimitedRanks, ARankThatIsLostWhileAllWaitTakesNobodyWithIt) {
  const Config c = endless("run");
  write("temp", "90");
  const Words words{limit("temp", kPause)};
  std::vector<Program> ranks =
      start_limited(c, words, words, {{1, {{.at = "limits:wait", .action = "kill", .count = 2}}}});
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
  expect_all_end(ranks, kInterrupted);
  EXPECT_TRUE(is_told("limits", "rank 1: " + path("notice") + " is there", c));
  EXPECT_EQ(directory.checkpoint_steps().back(), steps_of(c).back()["step"]);
}

/// While all wait, there is no window whose close could report it.
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
  expect_all_end(ranks, kInterrupted);
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

/// By its clock each micro-batch takes a second, which makes the real durations negligible.
const Fault kTakesLong{.at = "micro-batch", .action = "clock:1", .count = 0};

/// Micro-batches take as long on both ranks, but the second rank rests as long as it works.
TEST_F(LimitedRanks, ARankThatIsToBeSlowHasASmallerShareAndTheBitsStay) {
  Config c = small("run");
  c.run.eval_every.reset();
  c.precision.accumulate = accum::Accumulation::fixed;
  c.run.steps = 6;
  c.dist.timeout = {600, Duration::Unit::seconds};  // for clocks that run ahead
  c.batch.tokens = 32 * *c.model.context;
  c.batch.micro = 1;
  write("temp", "90");
  Config slow = c;
  slow.run.out = path("slow");
  slow.run.limits = {{.file = path("temp"), .above = 85}};
  const Words words[]{command(c), command(slow, {"--run.out=" + c.run.out})};
  const FaultsOfRanks take_long{{0, {kTakesLong}}, {1, {kTakesLong}}};
  std::vector<Program> ranks = accrue::testing::start_ranks(
      folder_, 2, 2, [&](int rank) { return with_faults(take_long, rank, words[rank]); });
  expect_all_end(ranks, 0);
  const std::vector<nlohmann::json> leases = events_of("leases", c);
  ASSERT_FALSE(leases.empty());
  long all = 0, first = 0, second = 0;
  const std::string reason = leases.back()["reason"];
  ASSERT_EQ(
      std::sscanf(reason.c_str(), "%ld micro-batches by rank %ld + %ld", &all, &first, &second), 3);
  EXPECT_THAT(reason, HasSubstr(", rank 1 works 50% of the time"));
  EXPECT_EQ(all, 32);
  EXPECT_NEAR(static_cast<double>(second), 32.0 / 3, 1.5) << "a third";
  expect_bits_of_one_process(c);
}

}  // namespace
}  // namespace accrue::train
