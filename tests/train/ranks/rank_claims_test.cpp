#include "train/ranks/rank_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace accrue::train {
namespace {

using accum::WindowTotals;
using ::testing::HasSubstr;

constexpr std::size_t kWorld = 3;
const std::vector<batch::Range> kShares{{0, 4}, {4, 9}, {9, 10}};

/// Ten to a sample.
double weigh(batch::Range samples) { return 10.0 * static_cast<double>(samples.size()); }

WindowTotals stated(std::vector<double> weights,
                    std::vector<std::int64_t> quarantines = {0, 0, 0}) {
  return {.weights = std::move(weights), .quarantines = std::move(quarantines)};
}
WindowTotals honest() { return stated({40, 50, 10}); }

/// What ranks that did `runs` of their shares tell each other, added up.
std::vector<double> told(const std::vector<WindowRun>& runs, const WeighSamples& weigher = weigh) {
  std::vector<double> sums(2 * kWorld, 0);
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    const RankClaims claims(static_cast<std::int64_t>(rank), kWorld, weigher);
    std::ranges::transform(sums, claims.rank_sums(kShares, runs[rank]), sums.begin(),
                           std::plus<>());
  }
  return sums;
}
std::vector<double> told() { return told(std::vector<WindowRun>(kWorld)); }

std::optional<RankClaims::False> find_false(const WindowTotals& claims,
                                            const std::vector<double>& sums) {
  return RankClaims(0, kWorld, weigh).find_false(claims, sums);
}

TEST(RankClaims, HoldWhereWeightsAreThoseOfTheLabels) {
  EXPECT_FALSE(find_false(honest(), told()));
}

TEST(RankClaims, NameTheRankWithAnotherWeight) {
  for (std::size_t rank = 0; rank < kWorld; ++rank)
    for (const double factor : {2.0, 0.5, 1 + 1e-6}) {
      WindowTotals claims = honest();
      claims.weights[rank] *= factor;
      const auto found = find_false(claims, told());
      ASSERT_TRUE(found) << rank << " times " << factor;
      EXPECT_EQ(found->rank, static_cast<std::int64_t>(rank));
    }
  const auto found = find_false(stated({40, 100, 10}), told());
  EXPECT_EQ(found->in_words, "a weight of 100 of rank 1, whose samples have 50 by their labels");
}

TEST(RankClaims, OfWhatWasLeftOutAreLessAndNeverMore) {
  std::vector<WindowRun> runs(kWorld);
  runs[1].unreadable.push_back({.sample_id = 5, .reason = "cut short"});
  EXPECT_FALSE(find_false(stated({40, 40, 10}), told(runs)));
  EXPECT_FALSE(find_false(stated({30, 50, 10}, {1, 0, 0}), told()));
  EXPECT_TRUE(find_false(stated({40, 40, 10}), told()));
  const auto more = find_false(stated({40, 60, 10}), told(runs));
  ASSERT_TRUE(more);
  EXPECT_THAT(more->in_words, HasSubstr("have at most 50 by"));
}

TEST(RankClaims, ThatNobodyWeighsHaveToBePossible) {
  std::vector<WindowRun> went_on(kWorld);
  for (WindowRun& run : went_on) run.went_on = true;
  for (const std::vector<double>& sums :
       {told(went_on), told(std::vector<WindowRun>(kWorld), {})}) {
    EXPECT_FALSE(find_false(stated({40, 100, 10}), sums));
    for (const double weight : {-1.0, std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()}) {
      const auto found = find_false(stated({40, 50, weight}), sums);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->rank, 2);
      EXPECT_THAT(found->in_words, HasSubstr("of rank 2, which is to be finite and not negative"));
    }
  }
}

}  // namespace
}  // namespace accrue::train
