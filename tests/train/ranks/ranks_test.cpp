#include "train/ranks/ranks.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(EqualShares, AreInOnePiece) {
  const batch::Range samples{100, 108};
  EXPECT_EQ(equal_share_of(samples, 0, 3), (batch::Range{100, 103}));
  EXPECT_EQ(equal_share_of(samples, 1, 3), (batch::Range{103, 106}));
  EXPECT_EQ(equal_share_of(samples, 2, 3), (batch::Range{106, 108}));
  EXPECT_EQ(equal_share_of({0, 2}, 2, 3).size(), 0);
}

TEST(MostFrugalPlan, IsTheSmallestMicroBatchWithTheMostRecomputation) {
  const MicroDecision large{.samples = 8, .recompute = Recompute::full};
  const MicroDecision small{.samples = 4}, smaller{.samples = 4, .recompute = Recompute::selective};
  EXPECT_EQ(most_frugal({large, small, smaller}).recompute, Recompute::selective);
}

}  // namespace
}  // namespace accrue::train
