#include "observe/history/run_speed.h"

#include <gmock/gmock.h>

#include "observe/history/run_folder.h"

namespace accrue::observe {
namespace {

TEST(RunSpeed, IsAllTokensOverAllSeconds) {
  const StepTable table{
      .steps = {1, 2, 3, 4},
      .columns = {{"tokens_per_second", {1, 10, 20, none}}, {"seconds", {100, 3, 1, 7}}}};
  const auto speed = speed_of(table, {1});
  ASSERT_TRUE(speed);
  EXPECT_EQ(speed->unit, SpeedUnit::tokens);
  EXPECT_DOUBLE_EQ(speed->per_second, (10 * 3 + 20 * 1) / 4.);
  EXPECT_DOUBLE_EQ(speed_of(table, {})->per_second, (1 * 100 + 10 * 3 + 20 * 1) / 104.);
}

TEST(RunSpeed, CountsSamplesWhereThereAreNoTokens) {
  const StepTable table{
      .steps = {1, 2, 3, 7, 8},
      .columns = {{"samples", {64, 128, 192, 500, 564}}, {"seconds", {8, 2, 2, 1, 4}}}};
  const auto speed = speed_of(table, {1});
  ASSERT_TRUE(speed);
  EXPECT_EQ(speed->unit, SpeedUnit::samples);
  EXPECT_DOUBLE_EQ(speed->per_second, (64 + 64 + 64) / 8.) << "step 7 does not follow 3";
  EXPECT_DOUBLE_EQ(speed_of(table, {})->per_second, 4 * 64 / 16.) << "step 1 begins at 0";
}

TEST(RunSpeed, TakesAWarmUpWhereThereIsNothingElse) {
  const StepTable table{.steps = {1}, .columns = {{"tokens_per_second", {7}}, {"seconds", {2}}}};
  EXPECT_DOUBLE_EQ(speed_of(table, {1})->per_second, 7);
}

TEST(RunSpeed, IsAbsentWhereItIsNotTold) {
  EXPECT_FALSE(speed_of({}, {}));
  EXPECT_FALSE(speed_of({.steps = {1}, .columns = {{"seconds", {2}}}}, {}));
  EXPECT_FALSE(speed_of({.steps = {1}, .columns = {{"tokens_per_second", {2}}}}, {}));
  EXPECT_FALSE(
      speed_of({.steps = {1}, .columns = {{"tokens_per_second", {2}}, {"seconds", {0}}}}, {}));
}

}  // namespace
}  // namespace accrue::observe
