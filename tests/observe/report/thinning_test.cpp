#include "observe/report/thinning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace accrue::observe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsNan;
using ::testing::Pointwise;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

std::vector<std::int64_t> steps_to(std::int64_t last) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(last));
  std::iota(steps.begin(), steps.end(), 1);
  return steps;
}

/// A wave with one step that is far above it and one far below.
std::vector<double> wave_with_spikes(std::size_t length, std::size_t high, std::size_t low) {
  std::vector<double> column(length);
  for (std::size_t i = 0; i < length; ++i) column[i] = std::sin(static_cast<double>(i) * 0.01);
  column[high] = 50;
  column[low] = -70;
  return column;
}

bool holds(const std::vector<double>& values, double value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// The negative control for the kept extremes: every k-th value.
std::vector<double> every(const std::vector<double>& column, std::size_t k) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < column.size(); i += k) kept.push_back(column[i]);
  return kept;
}

TEST(Thinning, FewStepsStayAsTheyAre) {
  const Buckets buckets = bucket_steps({1, 2, 3, 7}, 4);
  EXPECT_EQ(buckets.width, 1);
  EXPECT_THAT(buckets.ends, ElementsAre(1U, 2U, 3U, 4U));
  const ThinColumn column = thin({5, kGap, 7, 8}, buckets);
  EXPECT_THAT(column.mean, ElementsAre(5, IsNan(), 7, 8));
  EXPECT_THAT(column.highest, ElementsAre(5, IsNan(), 7, 8));
}

TEST(Thinning, BucketsAreTheNarrowestThatAreFewEnough) {
  for (const std::int64_t last : {1, 5, 100, 2048, 2049, 100'000}) {
    const Buckets buckets = bucket_steps(steps_to(last), 2048);
    EXPECT_LE(buckets.count(), 2048U) << last;
    EXPECT_EQ(buckets.ends.back(), static_cast<std::size_t>(last));
    if (buckets.width > 1) {
      EXPECT_GT(2 * last / buckets.width, 2048) << last;
    }
  }
}

TEST(Thinning, EveryExtremeOfALongRunIsKept) {
  const std::vector<double> column = wave_with_spikes(100'000, 41'337, 80'002);
  const Buckets buckets = bucket_steps(steps_to(100'000), 2048);
  const ThinColumn thinned = thin(column, buckets);
  EXPECT_TRUE(holds(thinned.highest, 50));
  EXPECT_TRUE(holds(thinned.lowest, -70));
  EXPECT_FALSE(holds(thinned.mean, 50));
  const std::vector<double> sampled = every(column, static_cast<std::size_t>(buckets.width));
  EXPECT_FALSE(holds(sampled, 50)) << "what is no thinning by extremes loses the spike";
  EXPECT_FALSE(holds(sampled, -70));
}

TEST(Thinning, MeansWeighedByTheirBucketsAreTheMeanOfAll) {
  const std::vector<double> column = wave_with_spikes(10'000, 17, 6000);
  const Buckets buckets = bucket_steps(steps_to(10'000), 100);
  const ThinColumn thinned = thin(column, buckets);
  double sum = 0;
  for (std::size_t b = 0, begin = 0; b < buckets.count(); begin = buckets.ends[b++])
    sum += thinned.mean[b] * static_cast<double>(buckets.ends[b] - begin);
  EXPECT_NEAR(sum, std::accumulate(column.begin(), column.end(), 0.0), 1e-9);
}

/// Thus two runs of different lengths share the bucket boundaries of the longer one.
TEST(Thinning, BucketsOfOtherWidthsNest) {
  const auto ends_of = [](std::int64_t last, std::size_t most) {
    return last_of_buckets(steps_to(last), bucket_steps(steps_to(last), most));
  };
  const std::vector<std::int64_t> coarse = ends_of(1000, 20), fine = ends_of(1000, 100);
  ASSERT_LT(coarse.size(), fine.size());
  for (const std::int64_t end : coarse)
    EXPECT_TRUE(std::find(fine.begin(), fine.end(), end) != fine.end()) << end;
}

TEST(Thinning, AnEmptyTableHasNoBuckets) {
  EXPECT_EQ(bucket_steps({}, 10).count(), 0U);
  EXPECT_TRUE(thin({}, bucket_steps({}, 10)).mean.empty());
}

}  // namespace
}  // namespace accrue::observe
