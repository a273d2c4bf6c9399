// The reports of each rank, and their steps.
#include "train/window/run_log.h"

#include <gmock/gmock.h>

#include "train/recorder.h"

namespace accrue::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Listened {
  explicit Listened(bool is_first_rank) : log(observers, state, is_first_rank) {}

  std::shared_ptr<testing::Recorder> recorder = std::make_shared<testing::Recorder>();
  RunLog::Observers observers{recorder};
  TrainState state{.step = 7};
  RunLog log;
};

TEST(RunLog, EventsBelongToTheStepUnderWayOrToTheOneThatWasDone) {
  Listened listened(true);
  listened.log.event("leases", "a");
  listened.log.event_of_last_step("no_step", "b");
  listened.state.step = 8;
  listened.log.event_of_this_rank("budget", "c");
  std::vector<std::int64_t> steps;
  listened.log.event_of_this_rank({.name = "slow_input", .reason = "d", .step = 5});
  for (const Event& event : listened.recorder->events) steps.push_back(event.step);
  EXPECT_THAT(steps, ElementsAre(8, 7, 9, 5));
  EXPECT_THAT(listened.log.noted(), IsEmpty());
}

TEST(RunLog, WhatHappensOnAnotherRankIsNotedThereAndTakenOnce) {
  Listened listened(false);
  listened.log.quarantine({.index = 1, .sample_ids = {4, 5}}, "its loss is not finite",
                          std::vector<std::int64_t>{17, 3});
  EXPECT_THAT(listened.recorder->events, IsEmpty());
  const std::vector<Event> noted = listened.log.take_noted();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].step, 8);
  EXPECT_THAT(noted[0].reason, HasSubstr("(samples 4 to 5) was left out: its loss is not finite; "
                                         "in the data: samples 17, 3"));
  EXPECT_THAT(listened.log.take_noted(), IsEmpty());
  RunLog first(listened.observers, listened.state, true);
  first.tell(noted);
  EXPECT_EQ(listened.recorder->events.size(), 1u);
}

TEST(RunLog, NamesTheFirstSixteenSamplesOfTheData) {
  Listened listened(true);
  std::vector<std::int64_t> samples(40, 1);
  samples[15] = 99;
  listened.log.quarantine({.index = 0, .sample_ids = {0}}, "bad", samples);
  EXPECT_THAT(listened.recorder->events[0].reason, HasSubstr("1, 99, ..."));
}

}  // namespace
}  // namespace accrue::train
