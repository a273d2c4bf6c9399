#include "train/watch/rare_updates.h"

#include <gmock/gmock.h>

#include <cmath>

namespace accrue::train {
namespace {

using optim::LearningRate;
using optim::ScheduleKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr UpdateCount few{.steps = 9, .accumulation_steps = 8, .samples = 4096};

LearningRate schedule_of(std::int64_t steps, std::int64_t warmup = 0,
                         ScheduleKind kind = ScheduleKind::cosine) {
  return {.kind = kind, .peak = 1, .warmup = warmup, .total_steps = steps};
}

TEST(RareUpdates, AreAWarmUpThatTheRunDoesNotOutlast) {
  EXPECT_THAT(rare_updates(schedule_of(9, 100), few),
              AllOf(HasSubstr("the warm-up of 100 steps takes the whole run of 9 steps"),
                    HasSubstr("the batch of 4096 samples is suspected, which leaves 9 steps")));
  const UpdateCount stated{.steps = 50, .is_stated = true};
  EXPECT_THAT(rare_updates(schedule_of(50, 50, ScheduleKind::constant), stated),
              HasSubstr("optim.schedule.warmup is suspected"));
  EXPECT_EQ(rare_updates(schedule_of(50, 49), stated), "");
}

TEST(RareUpdates, AreFewOfAScheduleThatFalls) {
  EXPECT_THAT(rare_updates(schedule_of(9), few),
              AllOf(HasSubstr("falls to its end in 9 steps"), HasSubstr("a smaller batch")));
  EXPECT_EQ(rare_updates(schedule_of(9, 0, ScheduleKind::constant), few), "");
  UpdateCount other = few;
  other.is_stated = true;
  EXPECT_EQ(rare_updates(schedule_of(9), other), "") << "they are as many as was said";
  other = few;
  other.accumulation_steps = 1;
  EXPECT_EQ(rare_updates(schedule_of(9), other), "") << "nothing is accumulated";
  other = few;
  other.steps = 16;
  EXPECT_EQ(rare_updates(schedule_of(16), other), "");
}

/// The limit is a change of a cosine by a tenth of its peak from one update to the next.
TEST(RareUpdates, BeginWhereACosineJumpsByATenth) {
  const auto largest_jump = [](std::int64_t steps) {
    double largest = 0;
    for (std::int64_t step = 1; step < steps; ++step)
      largest = std::max(largest,
                         std::abs(schedule_of(steps).at(step) - schedule_of(steps).at(step - 1)));
    return largest;
  };
  UpdateCount updates = few;
  for (const std::int64_t steps : {15, 17}) {
    updates.steps = steps;
    EXPECT_EQ(!rare_updates(schedule_of(steps), updates).empty(), largest_jump(steps) > 0.1)
        << steps;
  }
}

}  // namespace
}  // namespace accrue::train
