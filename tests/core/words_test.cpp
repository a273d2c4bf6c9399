#include "accrue/core/words.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(Listed, JoinsWithItsLastWord) {
  EXPECT_EQ(listed({}, "or"), "");
  EXPECT_EQ(listed({"a"}, "or"), "a");
  EXPECT_EQ(listed({"a", "b", "c"}, "and"), "a, b and c");
}

TEST(Counted, IsOneOrSeveral) {
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(0, "micro-batch"), "0 micro-batches");
  EXPECT_EQ(counted(2, "sample"), "2 samples");
  EXPECT_EQ(counted(3, "loss"), "3 losses");
}

}  // namespace
}  // namespace accrue
