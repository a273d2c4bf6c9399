#include "core/median.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median_of({3}), 3);
  EXPECT_EQ(median_of({9, 1, 2}), 2);
  EXPECT_EQ(median_of({8, 1, 2, 4}), 3);
  EXPECT_EQ(median_of({1, 1}), 1);
}

}  // namespace
}  // namespace accrue
