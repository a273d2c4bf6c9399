#include "core/words.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(Listed, JoinsWithItsLastWord) {
  EXPECT_EQ(listed({}, "or"), "");
  EXPECT_EQ(listed({"a"}, "or"), "a");
  EXPECT_EQ(listed({"a", "b", "c"}, "and"), "a, b and c");
}

TEST(FirstFew, NamesHowManyMoreThereAre) {
  EXPECT_EQ(first_few({"a", "b", "c", "d"}, 2), "a, b and 2 more");
  EXPECT_EQ(first_few({"a", "b"}, 1), "a and 1 more");
  EXPECT_EQ(first_few({"a", "b"}, 2), "a and b");
  EXPECT_EQ(first_few({"a"}, 2), "a");
  EXPECT_EQ(first_few({}, 2), "");
}

TEST(InQuotes, IsAsAConfigStatesIt) { EXPECT_EQ(in_quotes("fp32"), "\"fp32\""); }

TEST(Counted, IsOneOrSeveral) {
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(0, "micro-batch"), "0 micro-batches");
  EXPECT_EQ(counted(2, "sample"), "2 samples");
  EXPECT_EQ(counted(3, "loss"), "3 losses");
}

TEST(DigitGroups, AreOfThree) {
  EXPECT_EQ(digit_groups(0), "0");
  EXPECT_EQ(digit_groups(8192), "8192");
  EXPECT_EQ(digit_groups(65536), "65,536");
  EXPECT_EQ(digit_groups(524288, '_'), "524_288");
  EXPECT_EQ(digit_groups(1'000'000), "1,000,000");
  EXPECT_EQ(digit_groups(-1'234'567), "-1,234,567");
}

}  // namespace
}  // namespace accrue
