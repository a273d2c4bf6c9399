#include "train/window/quarantine_limits.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(QuarantineLimits, AllowsAFractionOfTheMicroBatchesAndAtLeastOne) {
  EXPECT_EQ(allowed_quarantined(0, 100), 0);
  EXPECT_EQ(allowed_quarantined(0.1, 1), 1);
  EXPECT_EQ(allowed_quarantined(0.1, 4), 1);
  EXPECT_EQ(allowed_quarantined(0.1, 29), 2);
  EXPECT_EQ(allowed_quarantined(0.1, 30), 3);
  EXPECT_EQ(allowed_quarantined(1, 8), 8);
}

}  // namespace
}  // namespace accrue::train
