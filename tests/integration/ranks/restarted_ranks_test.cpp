// Ranks that a launcher restarts while the store of its agent lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "integration/ranks/changing_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::ChangingRanks;
using ::testing::ElementsAre;
using testing::FaultsOfRanks;
using testing::kInterrupted;
using testing::Pause;
using testing::Words;

class RestartedRanks : public ChangingRanks {
 protected:
  /// They begin the run if it does not exist, and otherwise continue it.
  static inline const Words kBeginOrGoOn{"--resume", "auto"};

  std::vector<Program> start(const Config& c, int world, const FaultsOfRanks& faults) {
    return start_all(c, world, faults, kBeginOrGoOn);
  }
  static FaultsOfRanks all_killed(int world, std::int64_t step) {
    FaultsOfRanks faults;
    for (int rank = 0; rank < world; ++rank) faults[rank] = {killed_at("micro-batch", 1, step)};
    return faults;
  }
};

/// If one of them fails, torchrun stops the others and starts as many as there are machines.
TEST_F(RestartedRanks, GoOnInTheSameStoreToTheBit) {
  const Config alone = fixed("alone", 24);
  train_here(alone);
  const Config c = as(alone, "restarted");
  std::vector<Program> three =
      start(c, 3, {{1, {killed_at("micro-batch", 1, 4)}}, {0, {stops_at_step(6)}}});
  expect_killed(three[1]);
  for (const std::size_t rank : {0U, 2U}) expect_ends(three[rank], kInterrupted);
  std::vector<Program> two = start(c, 2, all_killed(2, 5));
  for (Program& rank : two) expect_killed(rank);
  std::vector<Program> four = start(c, 4, {});
  for (Program& rank : four) expect_ends_well(rank);
  expect_same_run(c, alone);
}

/// A rank that comes while the others are still being started belongs to their start, and one that
/// comes when they train joins them, whatever starts there were before.
TEST_F(RestartedRanks, TakeInOneThatComesBack) {
  Config c = endless_fixed("restarted");
  c.run.checkpoint_every = {3, Duration::Unit::steps};
  std::vector<Program> first = start(c, 2, all_killed(2, 6));
  for (Program& rank : first) expect_killed(rank);
  const Pause alone(folder_, "alone");
  std::vector<Program> second =
      start(c, 2, {{1, {killed_at("micro-batch")}}, {0, {tells_at_step("alone", 8)}}});
  expect_killed(second[1]);
  alone.wait();
  Words words = command(c);
  words.insert(words.end(), kBeginOrGoOn.begin(), kBeginOrGoOn.end());
  Program back = start_rank(1, 2, with_faults({{1, {stops_at_step(3)}}}, 1, words));
  expect_ends(back, kInterrupted);
  expect_ends(second[0], kInterrupted);
  EXPECT_THAT(worlds_of(c), ElementsAre(2, 1, 2));
  expect_bits_of_one_process(c);
}

}  // namespace
}  // namespace accrue::train
