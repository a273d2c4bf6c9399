#include "verify/config/check_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace accrue::proof {
namespace {

constexpr double much_work = 1e12, little_work = 1e6;  // per sample

CheckPlanInput large(std::int64_t samples, std::int64_t micro) {
  return {.window_samples = samples, .micro_batch = micro, .flops_per_sample = much_work};
}

TEST(CheckPlan, AWindowOfLittleWorkIsCheckedWhole) {
  CheckPlanInput input = large(64, 4);
  input.flops_per_sample = little_work;
  const CheckPlan plan = plan_checks(input);
  EXPECT_EQ(plan.subset, 64);
  EXPECT_EQ(plan.steps, 3);
  EXPECT_EQ(plan.sizes, (std::vector<std::int64_t>{1, 2, 3, 7, 32}));
  EXPECT_GT(plan.windows, 6) << "which would be too much for one of much work";
}

TEST(CheckPlan, MuchWorkIsDoneInSixWindowsWork) {
  for (const std::int64_t window : {32, 64, 1000, 100'000})
    for (const std::int64_t micro : {1, 2, 4, 32})
      for (const double plain_cost : {1.0, 1.3}) {
        CheckPlanInput input = large(window, micro);
        input.plain_cost = plain_cost;
        EXPECT_LE(plan_checks(input).windows, 6) << window << " in " << micro;
      }
}

TEST(CheckPlan, SplitsAndStepsAreNeverLeftOut) {
  for (const std::int64_t window : {2, 3, 4, 7, 16, 64, 1000})
    for (const std::int64_t other : {0, 2}) {
      CheckPlanInput input = large(window, 1);
      input.other_windows = other;
      const CheckPlan plan = plan_checks(input);
      EXPECT_GE(plan.subset, std::min<std::int64_t>(window, 4));
      EXPECT_GE(plan.steps, 2);
      EXPECT_FALSE(plan.sizes.empty());
    }
}

TEST(CheckPlan, OtherWaysOfTrainingTakeTheirWorkFromTheSubset) {
  CheckPlanInput other = large(256, 4);
  const CheckPlan alone = plan_checks(other);
  other.other_windows = 1;
  EXPECT_LE(plan_checks(other).windows, 6);
  EXPECT_LE(plan_checks(other).subset, alone.subset);
}

TEST(CheckPlan, ThoroughTakesAllOfTheWindow) {
  CheckPlanInput input = large(64, 4);
  EXPECT_LT(plan_checks(input).subset, 64);
  input.thorough = true;
  EXPECT_EQ(plan_checks(input).subset, 64);
  EXPECT_GT(plan_checks(input).steps, 3);
}

}  // namespace
}  // namespace accrue::proof
