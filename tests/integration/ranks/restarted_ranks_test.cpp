// Ranks that a launcher starts anew while the store that its agent hosts lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "integration/ranks/changing_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::ChangingRanks;
using ::testing::ElementsAre;
using testing::kInterrupted;
using testing::Words;

class RestartedRanks : public ChangingRanks {
 protected:
  /// They begin the run where it is not there, and go on with it where it is.
  static inline const Words kBeginOrGoOn{"auto"};

  std::vector<Program> start(const Config& c, int world) {
    return start_all(c, world, kBeginOrGoOn);
  }
  static void stop(Program& rank) {
    ::kill(rank.process(), SIGTERM);
    EXPECT_EQ(rank.wait().status, kInterrupted);
  }
};

/// Where one of them fails, torchrun stops the others and starts as many as there are machines for.
TEST_F(RestartedRanks, GoOnInTheSameStoreToTheBit) {
  const Config alone = fixed("alone", 60);
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "restarted").string();
  std::vector<Program> three = start(c, 3);
  wait_for_step(c, 3);
  kill_it(three[1]);
  stop(three[0]);
  EXPECT_EQ(three[2].wait().status, kInterrupted) << "what one hears all do";
  std::vector<Program> two = start(c, 2);
  wait_for_step(c, steps_done(c) + 3);
  for (Program& rank : two) kill_it(rank);
  std::vector<Program> four = start(c, 4);
  for (Program& rank : four) expect_ends_well(rank);
  expect_same_run(c, alone);
}

/// One that comes while the others are still to be started is of their start, and one that comes
/// when they train joins them, whatever starts there were before.
TEST_F(RestartedRanks, TakeInOneThatComesBack) {
  const Config alone = fixed("alone", 120);
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "restarted").string();
  std::vector<Program> first = start(c, 2);
  wait_for_step(c, 3);
  for (Program& rank : first) kill_it(rank);
  std::vector<Program> second = start(c, 2);
  wait_for_step(c, steps_done(c) + 3);
  kill_it(second[1]);
  Program back = start_rank(1, 2, slow(c, kBeginOrGoOn));
  expect_ends_well(second[0]);
  expect_ends_well(back);
  EXPECT_THAT(worlds_of(c), ElementsAre(2, 1, 2));
  expect_same_run(c, alone);
}

}  // namespace
}  // namespace accrue::train
