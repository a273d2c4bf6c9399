#include "train/run/cadence.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace accrue::train {
namespace {

TEST(Cadence, CountsStepsOrConvertsToThem) {
  const Horizon horizon{.total_steps = 200, .tokens_per_step = 100, .steps_per_epoch = 50};
  const Cadence every_ten({10, Duration::Unit::steps}, horizon, "x");
  EXPECT_FALSE(every_ten.due(9));
  EXPECT_TRUE(every_ten.due(20));
  const Cadence quarter({25, Duration::Unit::percent}, horizon, "x");
  EXPECT_TRUE(quarter.due(50));
  EXPECT_FALSE(quarter.due(51));
  const Cadence hourly({3600, Duration::Unit::seconds}, horizon, "x");
  EXPECT_FALSE(hourly.due(10));
}

/// A clock of 0 seconds is always due.
TEST(Cadence, IsDueWithinAStepThatTakesLongerThanItsTimes) {
  const Horizon horizon{.total_steps = 200};
  const Cadence hourly({3600, Duration::Unit::seconds}, horizon, "x");
  EXPECT_FALSE(hourly.due_within_step(7200)) << "the last time was just now";
  const Cadence always({0, Duration::Unit::seconds}, horizon, "x");
  EXPECT_TRUE(always.due_within_step(0));
  const Cadence soon({0.02, Duration::Unit::seconds}, horizon, "x");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(soon.due_within_step(0.03));
  EXPECT_FALSE(soon.due_within_step(0.01)) << "a short step is waited for";
  const Cadence each_step({1, Duration::Unit::steps}, horizon, "x");
  EXPECT_FALSE(each_step.due_within_step(7200));
}

TEST(Cadence, GoesByHowFarStepsOfManySizesHaveCome) {
  const double behind[] = {0, 100, 200, 600, 1000, 1400};  // tokens after each step
  const Cadence every_500({500, Duration::Unit::tokens}, [&](std::int64_t step) {
    return behind[static_cast<std::size_t>(step)];
  });
  for (const std::int64_t due : {3, 4}) EXPECT_TRUE(every_500.due(due)) << due;
  for (const std::int64_t early : {1, 2, 5}) EXPECT_FALSE(every_500.due(early)) << early;
  EXPECT_TRUE(every_500.due(5, 2));
}

}  // namespace
}  // namespace accrue::train
