#include "distributed/schedule/reported_shares.h"

#include <gtest/gtest.h>

#include <utility>

namespace accrue::distributed {
namespace {

/// Ranks with so many units each.
Division shares_of(const std::vector<std::int64_t>& counts) {
  Division division;
  std::int64_t begin = 0;
  for (const std::int64_t count : counts) {
    division.leases.push_back(
        {.rank = std::ssize(division.leases), .begin = begin, .count = count});
    begin += count;
  }
  return division;
}

TEST(ReportedShares, AreReportedWhenOneHasChangedByMoreThanATenthSinceTheLastTime) {
  ReportedShares told;
  EXPECT_FALSE(told.are_begun());
  told.begin(1000, shares_of({100, 900}));
  EXPECT_TRUE(told.are_begun());
  EXPECT_FALSE(told.take(1000, shares_of({105, 895})));
  EXPECT_FALSE(told.take(1000, shares_of({110, 890}))) << "a tenth is not more than a tenth";
  EXPECT_TRUE(told.take(1000, shares_of({111, 889}))) << "100 was reported, and not 110";
  EXPECT_FALSE(told.take(1000, shares_of({100, 900}))) << "of 111";
  EXPECT_TRUE(told.take(1000, shares_of({99, 901})));
}

TEST(ReportedShares, AreReportedWhenARankPausesOrIsTakenInAgain) {
  ReportedShares told;
  told.begin(200, shares_of({199, 1}));
  EXPECT_TRUE(told.take(200, shares_of({200, 0})));
  EXPECT_FALSE(told.take(200, shares_of({200, 0})));
  EXPECT_TRUE(told.take(200, shares_of({199, 1})));
}

TEST(ReportedShares, AreFractionsOfTheirWindows) {
  ReportedShares told;
  told.begin(64, shares_of({48, 16}));
  EXPECT_FALSE(told.take(32, shares_of({24, 8})));
  EXPECT_TRUE(told.take(32, shares_of({22, 10})));
}

}  // namespace
}  // namespace accrue::distributed
