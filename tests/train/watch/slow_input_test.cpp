#include "train/watch/slow_input.h"

#include <gmock/gmock.h>

#include <vector>

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The reports for `steps` steps that take `seconds`, of which they wait for `waiting`.
std::vector<std::string> told_of(SlowInput& input, int steps, double waiting, double seconds) {
  std::vector<std::string> told;
  for (int i = 0; i < steps; ++i) {
    StepReport report{.seconds = seconds};
    report.data_seconds = waiting;
    if (auto reason = input.observe(report)) told.push_back(*reason);
  }
  return told;
}

TEST(SlowInput, IsToldOnceWithItsCause) {
  SlowInput input(InputKind::images);
  EXPECT_TRUE(told_of(input, 40, 0.01, 1).empty());
  const auto told = told_of(input, 40, 0.5, 1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0], AllOf(HasSubstr("of their time for input"), HasSubstr("decoding images")));
  EXPECT_TRUE(told_of(input, 40, 0.08, 1).empty()) << "it is better, and not yet over";
  EXPECT_TRUE(told_of(input, 40, 0.01, 1).empty());
  EXPECT_EQ(told_of(input, 40, 0.2, 1).size(), 1U);
}

TEST(SlowInput, IsSuspectedOfWhatItIsMadeOf) {
  SlowInput stream(InputKind::stream), lines(InputKind::lines);
  EXPECT_THAT(told_of(stream, 20, 1, 1).at(0), HasSubstr("suspected: the disk"));
  EXPECT_THAT(told_of(lines, 20, 1, 1).at(0), HasSubstr("JSON lines"));
}

TEST(SlowInput, IsNoneWhereItCostsLittleOrIsNotKnown) {
  SlowInput input(InputKind::stream);
  EXPECT_TRUE(told_of(input, 19, 1, 1).empty()) << "too few steps";
  SlowInput in_short_steps(InputKind::stream);
  EXPECT_TRUE(told_of(in_short_steps, 100, 0.002, 0.004).empty()) << "a second is not lost";
  SlowInput unknown(InputKind::stream);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(unknown.observe({.seconds = 1}));
}

}  // namespace
}  // namespace accrue::train
