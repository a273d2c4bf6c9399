#include "core/histogram_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kLargest = std::numeric_limits<double>::max();

/// TensorFlow's limits, by its own loop (tsl/lib/histogram/histogram.cc, InitDefaultBucketsInner).
std::vector<double> tensorflow_limits() {
  std::vector<double> limits, below;
  for (double v = 1.0e-12; v < 1.0e20; v *= 1.1) {
    limits.push_back(v);
    below.push_back(-v);
  }
  limits.push_back(kLargest);
  below.push_back(-kLargest);
  std::ranges::reverse(below);
  below.push_back(0);
  below.insert(below.end(), limits.begin(), limits.end());
  return below;
}

/// Counts by search, as TensorFlow does.
std::map<double, double> counted_by_search(const std::vector<double>& values) {
  static const std::vector<double> limits = tensorflow_limits();
  std::map<double, double> counts;
  for (const double value : values) ++counts[*std::ranges::upper_bound(limits, value)];
  return counts;
}

std::map<double, double> counts_of(const Histogram& histogram) {
  std::map<double, double> counts;
  for (std::size_t i = 0; i < histogram.limits.size(); ++i)
    if (histogram.counts[i] > 0) counts[histogram.limits[i]] = histogram.counts[i];
  return counts;
}

Histogram histogram_of(const std::vector<double>& values) {
  HistogramCounter counter;
  counter.add(values);
  return counter.histogram();
}

std::vector<double> values_of_all_magnitudes() {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-14, 22);
  std::vector<double> values{0.0, -0.0, 1e-300, -1e-300, 1e300, -1e300, 5e-324};
  for (int i = 0; i < 20000; ++i)
    values.push_back((i % 2 == 0 ? 1 : -1) * std::pow(10, exponent(random)));
  return values;
}

/// Limits themselves and their neighbours, where an error of one bit shows.
std::vector<double> values_at_limits() {
  std::vector<double> values;
  for (const double limit : tensorflow_limits())
    if (std::abs(limit) < kLargest)
      for (const double value :
           {std::nextafter(limit, -kLargest), limit, std::nextafter(limit, kLargest)})
        values.push_back(value);
  return values;
}

TEST(HistogramCounter, CountsAsASearchInTensorFlowsLimitsDoes) {
  for (const auto& values : {values_of_all_magnitudes(), values_at_limits()}) {
    const Histogram histogram = histogram_of(values);
    EXPECT_EQ(counts_of(histogram), counted_by_search(values));
    EXPECT_EQ(histogram.count, static_cast<std::int64_t>(values.size()));
    EXPECT_EQ(histogram.least, std::ranges::min(values));
    EXPECT_EQ(histogram.most, std::ranges::max(values));
  }
  std::vector<double> moved = values_at_limits();
  moved[3] = std::nextafter(moved[3], kLargest);
  EXPECT_NE(counts_of(histogram_of(values_at_limits())), counted_by_search(moved));
}

TEST(HistogramCounter, BeginsAndEndsWithBucketsThatHoldSomething) {
  const Histogram histogram = histogram_of({-1, 2, 2, 0});
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  EXPECT_THAT(histogram.counts, ElementsAre(1, 0, 1, 0, 2));
  EXPECT_TRUE(std::ranges::is_sorted(histogram.limits));
  EXPECT_LT(-1, histogram.limits.front());
  EXPECT_LT(2, histogram.limits.back());
  EXPECT_LE(histogram.limits[3], 2) << "the empty bucket ends where the last one begins";
  EXPECT_EQ(histogram.sum, 3);
  EXPECT_EQ(histogram.sum_of_squares, 9);
}

TEST(HistogramCounter, LeavesOutWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Histogram histogram = histogram_of({infinity, 1, -infinity, std::nan("")});
  EXPECT_EQ(histogram.count, 1);
  EXPECT_EQ(histogram.sum, 1);
  EXPECT_THAT(histogram_of({std::nan("")}).limits, IsEmpty());
  EXPECT_EQ(histogram_of({}).least, 0);
}

TEST(HistogramCounter, AddsUpParts) {
  const std::vector<double> values = values_of_all_magnitudes();
  const std::span<const double> all(values);
  HistogramCounter one, first, second, none;
  one.add(all);
  first.add(all.first(7000));
  second.add(all.subspan(7000));
  first.add(second);
  first.add(none);
  EXPECT_EQ(counts_of(first.histogram()), counts_of(one.histogram()));
  EXPECT_EQ(first.histogram().least, one.histogram().least);
  EXPECT_EQ(first.histogram().count, one.histogram().count);
}

}  // namespace
}  // namespace accrue
