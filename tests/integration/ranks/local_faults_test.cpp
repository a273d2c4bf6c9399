// Runs with dist.local_steps of which a rank is stopped, killed, frozen or given notice at a named
// point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string>

#include "integration/ranks/faulty_ranks.h"
#include "integration/ranks/local_rounds.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using testing::diloco;
using ::testing::Each;
using testing::Fault;
using ::testing::HasSubstr;
using testing::kInterrupted;
using testing::streamed;

class LocalFaults : public testing::FaultyRanks {
 protected:
  /// A run that only a fault ends.
  Config endless_local(const std::string& out, std::int64_t local_steps) const {
    Config c = diloco(small(out), local_steps);
    c.run.steps = 99999;
    c.run.eval_every.reset();
    return c;
  }
  static Fault stops_at(std::int64_t step) {
    return {.at = "optimizer-step", .action = "TERM", .step = step};
  }
};

TEST_F(LocalFaults, StopWhereARoundEnds) {
  Config c = endless_local("run", 3);
  c.run.eval_every = Duration{3, Duration::Unit::steps};
  std::vector<Program> ranks = start(c, 2, {{1, {stops_at(5)}}});
  expect_all_end(ranks, kInterrupted);
  const std::vector<std::int64_t> saved = RunDirectory(c.run.out).checkpoint_steps();
  ASSERT_FALSE(saved.empty());
  const std::int64_t last = saved.back();
  EXPECT_EQ(last % 3, 0);
  EXPECT_GT(last, 5);
  EXPECT_EQ(steps_done(c), last);

  // The evaluation that was due at that step is made after the resumption.
  std::vector<Program> again = start(c, 2, {{0, {stops_at(4)}}}, {"--resume"});
  expect_all_end(again, kInterrupted);
  std::set<std::int64_t> evaluated;
  for (const nlohmann::json& line : lines_with("eval_loss", c))
    evaluated.insert(line["step"].get<std::int64_t>());
  EXPECT_TRUE(evaluated.contains(last)) << last;
}

/// Its own steps since the last round exist nowhere else: no checkpoint may contain them.
TEST_F(LocalFaults, ARankThatIsLeftAloneSavesNothingOfItsOwnSteps) {
  Config c = endless_local("run", 3);
  // In the middle of the third round, and in the exchange that ends it.
  for (const Fault& killed : {Fault{.at = "micro-batch", .action = "kill", .step = 8},
                              Fault{.at = "outer:exchange", .action = "kill", .step = 9}}) {
    SCOPED_TRACE(killed.at);
    c.run.out = (folder_ / killed.at).string();
    std::vector<Program> ranks = start(c, 2, {{1, {killed}}});
    expect_rank_1_is_missed(ranks);
    const std::vector<std::int64_t> saved = RunDirectory(c.run.out).checkpoint_steps();
    EXPECT_FALSE(saved.empty());
    EXPECT_THAT(saved, Each(::testing::AnyOf(3, 6)));
  }
}

/// The request to stop travels in an exchange, and ends with the run that it stopped.
TEST_F(LocalFaults, PartsThatWereStoppedGoOn) {
  const Config c = streamed(endless_local("run", 4), 2, 1);
  std::vector<Program> ranks = start(c, 2, {{1, {stops_at(6)}}});
  expect_all_end(ranks, kInterrupted);
  const std::int64_t last = steps_done(c);
  std::vector<Program> again = start(c, 2, {{0, {stops_at(16)}}}, {"--resume"});
  expect_all_end(again, kInterrupted);
  EXPECT_GE(steps_done(c), last + 16);
}

TEST_F(LocalFaults, AnyRankThatIsGivenNoticeHasACheckpointWritten) {
  for (Config c : {endless_local("whole", 4), streamed(endless_local("streamed", 4), 2, 1)}) {
    c.run.checkpoint_every = {99999, Duration::Unit::steps};
    std::vector<Program> ranks =
        start(c, 2, {{1, {{.at = "optimizer-step", .action = "USR2", .step = 6}}}});
    wait_until([&] { return !RunDirectory(c.run.out).checkpoint_steps().empty(); });
    ::kill(ranks[1].process(), SIGTERM);
    expect_all_end(ranks, kInterrupted);
  }
}

/// A rank stands still, as if its link were down: the other continues until it needs it, reports
/// that, and waits. The results of both are the same as without the delay.
TEST_F(LocalFaults, ADelayIsHowFarARankGoesOnWithoutTheOther) {
  Config c = streamed(diloco(small("stood"), 40), 1, 30);
  c.run.steps = 160;
  c.run.eval_every.reset();
  c.run.checkpoint_every = {160, Duration::Unit::steps};
  c.dist.shares = Shares::equal;
  Config undisturbed = c;
  undisturbed.run.out = (folder_ / "undisturbed").string();
  expect_runs(undisturbed, 2);

  std::vector<Program> ranks =
      start(c, 2, {{1, {{.at = "micro-batch", .action = "stop", .step = 2}}}});
  wait_until([&] { return !events_of("dist", c).empty(); });
  EXPECT_EQ(steps_done(c), 39) << "the part is due after the next step";
  ::kill(ranks[1].process(), SIGCONT);
  expect_all_end(ranks, 0);
  EXPECT_THAT(events_of("dist", c).front()["reason"].get<std::string>(),
              HasSubstr("takes longer than dist.outer.delay (30 inner steps)"));
  expect_same_bits(parameters_of(c), parameters_of(undisturbed));
}

}  // namespace
}  // namespace accrue::train
