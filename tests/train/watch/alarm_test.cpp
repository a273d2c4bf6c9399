#include "train/watch/alarm.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(Alarm, RingsOnceUntilTheLevelWasLow) {
  Alarm alarm(0.9, 0.7);
  EXPECT_FALSE(alarm.rings(0.89));
  EXPECT_TRUE(alarm.rings(0.9));
  EXPECT_FALSE(alarm.rings(0.95));
  EXPECT_FALSE(alarm.rings(0.8)) << "between the levels nothing changes";
  EXPECT_FALSE(alarm.rings(0.95));
  EXPECT_FALSE(alarm.rings(0.69));
  EXPECT_TRUE(alarm.rings(2));
}

}  // namespace
}  // namespace accrue::train
