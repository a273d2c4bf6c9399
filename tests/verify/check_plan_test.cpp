#include "verify/config/check_plan.h"

#include <gtest/gtest.h>

namespace accrue::proof {
namespace {

TEST(CheckPlan, ACheapWindowIsCheckedWhole) {
  const CheckPlan plan =
      plan_checks({.window_samples = 64, .micro_batch = 4, .window_seconds = 0.1});
  EXPECT_EQ(plan.subset, 64);
  EXPECT_EQ(plan.steps, 3);
  EXPECT_EQ(plan.sizes, (std::vector<std::int64_t>{1, 2, 3, 7, 32}));
  EXPECT_GT(plan.windows, 5) << "which would be too much for a slow one";
}

TEST(CheckPlan, AnExpensiveWindowIsCheckedInFiveWindowsTime) {
  for (const std::int64_t window : {2, 3, 7, 16, 64, 1000, 100'000})
    for (const std::int64_t micro : {1, 2, 4, 64}) {
      const CheckPlan plan = plan_checks(
          {.window_samples = window, .micro_batch = std::min(micro, window), .window_seconds = 10});
      EXPECT_GE(plan.subset, 2);
      EXPECT_FALSE(plan.sizes.empty());
      if (window >= 7) {
        EXPECT_LE(plan.windows, 5) << window << " in " << micro;
      }
    }
}

TEST(CheckPlan, OtherWaysOfTrainingTakeTheirTimeFromTheSubset) {
  const CheckPlanInput alone{.window_samples = 64, .micro_batch = 4, .window_seconds = 10};
  CheckPlanInput other = alone;
  other.other_windows = 1;
  EXPECT_LE(plan_checks(other).windows, 5);
  EXPECT_LE(plan_checks(other).subset, plan_checks(alone).subset);
}

TEST(CheckPlan, ALargeWindowLeavesTimeForSteps) {
  const CheckPlan plan =
      plan_checks({.window_samples = 64, .micro_batch = 4, .window_seconds = 10});
  EXPECT_EQ(plan.steps, 3);
  EXPECT_TRUE(plan.orders);
  EXPECT_GE(plan.subset, 4);
}

}  // namespace
}  // namespace accrue::proof
