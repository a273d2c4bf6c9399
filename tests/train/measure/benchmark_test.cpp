#include "train/measure/benchmark.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(SpreadOf, IsMinMedianMax) {
  const Spread odd = spread_of({3, 1, 2});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
}

}  // namespace
}  // namespace accrue::train
