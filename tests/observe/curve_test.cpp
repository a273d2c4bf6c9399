#include "observe/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "observe/styled_text.h"

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Curve, KeepsFewValuesAsTheyAre) {
  Curve curve;
  EXPECT_THAT(curve.points(5), IsEmpty());
  curve.add(3);
  curve.add(std::nan(""));
  curve.add(std::numeric_limits<double>::infinity());
  curve.add(1);
  EXPECT_THAT(curve.points(5), ElementsAre(3, 1));
  EXPECT_THAT(curve.points(1), ElementsAre(2));
}

/// Each point is the mean of its part of the values, for any length of the run.
TEST(Curve, OfManyValuesIsTheMeansOfItsParts) {
  for (const int values : {512, 513, 1000, 4096, 100'000}) {
    Curve curve;
    for (int i = 0; i < values; ++i) curve.add(i);
    const std::vector<double> points = curve.points(8);
    ASSERT_EQ(points.size(), 8U);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double middle = (static_cast<double>(i) + 0.5) * values / 8;
      EXPECT_NEAR(points[i], middle, values / 100.0 + 1) << values;
    }
  }
}

TEST(Sparkline, GoesFromTheLowestToTheHighest) {
  EXPECT_EQ(sparkline({}, true), "");
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, true), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline({7, 0, 3.5}, true), "█▁▅");
  EXPECT_EQ(sparkline({7, 0, 3.5}, false), "#_=");
  EXPECT_EQ(sparkline({2, 2, 2}, true), "▁▁▁");
  EXPECT_EQ(sparkline({-1e300, 1e300}, false), "_#");
}

TEST(FilledBar, IsAsWideAsItIsAskedFor) {
  EXPECT_EQ(filled_bar(0.5, 4, false), "##..");
  EXPECT_EQ(filled_bar(0.5, 4, true), "██░░");
  EXPECT_EQ(filled_bar(2, 3, false), "###");
  EXPECT_EQ(filled_bar(-1, 3, false), "...");
  for (int columns = 0; columns < 50; ++columns)
    EXPECT_EQ(columns_of(filled_bar(0.37, columns, true)), columns);
}

}  // namespace
}  // namespace accrue::observe
