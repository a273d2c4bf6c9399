#include "train/ranks/rank_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kWorld = 3;
const std::vector<batch::Range> kShares{{0, 4}, {4, 9}, {9, 10}};

/// A weight of ten per sample.
double weigh(batch::Range samples) { return 10.0 * static_cast<double>(samples.size()); }

using Statements = std::vector<accum::RankStatement>;

/// The statements of ranks that did `runs` of their shares, each weighing the next one's.
Statements stated(const std::vector<double>& weights,
                  const std::vector<WindowRun>& runs = std::vector<WindowRun>(kWorld),
                  const WeighSamples& weigher = weigh) {
  Statements ranks(kWorld);
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    const RankClaims claims(static_cast<std::int64_t>(rank), kWorld, weigher);
    ranks[rank] = {.weight = weights[rank], .figures = {1, 1}};
    for (const double figure : claims.figures(kShares, runs[rank]))
      ranks[rank].figures.push_back(figure);
  }
  return ranks;
}
const std::vector<double> kHonest{40, 50, 10};

std::optional<RankClaims::False> find_false(const Statements& ranks) {
  return RankClaims(0, kWorld, weigh).find_false(ranks);
}

TEST(RankClaims, HoldWhereWeightsAreThoseOfTheLabels) { EXPECT_FALSE(find_false(stated(kHonest))); }

TEST(RankClaims, NameTheRankWithAnotherWeight) {
  for (std::size_t rank = 0; rank < kWorld; ++rank)
    for (const double factor : {2.0, 0.5, 1 + 1e-5}) {
      std::vector<double> weights = kHonest;
      weights[rank] *= factor;
      const auto found = find_false(stated(weights));
      ASSERT_TRUE(found) << rank << " times " << factor;
      EXPECT_EQ(found->rank, static_cast<std::int64_t>(rank));
    }
  const auto found = find_false(stated({40, 100, 10}));
  EXPECT_EQ(found->in_words, "a weight of 100 of rank 1, whose samples have 50 by their labels");
}

TEST(RankClaims, OfWhatWasLeftOutAreLessAndNeverMore) {
  std::vector<WindowRun> runs(kWorld);
  runs[1].unreadable.push_back({.sample_id = 5, .reason = "cut short"});
  EXPECT_FALSE(find_false(stated({40, 40, 10}, runs)));
  Statements without_some = stated({30, 50, 10});
  EXPECT_TRUE(find_false(without_some));
  without_some[0].quarantined = 1;
  EXPECT_FALSE(find_false(without_some));
  const auto more = find_false(stated({40, 60, 10}, runs));
  ASSERT_TRUE(more);
  EXPECT_THAT(more->in_words, HasSubstr("have at most 50 by"));
}

TEST(RankClaims, ThatNobodyWeighsHaveToBePossible) {
  std::vector<WindowRun> went_on(kWorld);
  for (WindowRun& run : went_on) run.went_on = true;
  const auto by_nobody = [&](const std::vector<double>& weights) {
    return std::vector{stated(weights, went_on),
                       stated(weights, std::vector<WindowRun>(kWorld), {})};
  };
  for (const Statements& ranks : by_nobody({40, 100, 10})) EXPECT_FALSE(find_false(ranks));
  for (const double weight :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const Statements& ranks : by_nobody({40, 50, weight})) {
      const auto found = find_false(ranks);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->rank, 2);
      EXPECT_THAT(found->in_words, HasSubstr("of rank 2, which is to be finite and not negative"));
    }
}

}  // namespace
}  // namespace accrue::train
