#include "batch/interleaving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "accrue/core/error.h"
#include "batch/sampler.h"

namespace accrue::batch {
namespace {

using Weights = std::vector<double>;
using Shares = std::vector<std::int64_t>;

Shares shares_of(const Weights& weights) {
  return whole_shares(weights, Interleaving::longest_period);
}

/// The largest distance of any source's draws from its share of them, after any of `draws` draws.
/// `source_of` returns the source of a draw.
template <typename SourceOf>
double largest_distance(const Shares& shares, std::int64_t draws, SourceOf source_of) {
  const auto all = static_cast<double>(std::accumulate(shares.begin(), shares.end(), 0LL));
  std::vector<std::int64_t> taken(shares.size(), 0);
  double largest = 0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    ++taken[source_of(draw)];
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double due = static_cast<double>(draw + 1) * static_cast<double>(shares[i]) / all;
      largest = std::max(largest, std::abs(static_cast<double>(taken[i]) - due));
    }
  }
  return largest;
}

TEST(WholeShares, AreTheSmallestWholeNumbersInTheRatioOfTheWeights) {
  EXPECT_EQ(shares_of({3, 1}), (Shares{3, 1}));
  EXPECT_EQ(shares_of({0.7, 0.2, 0.1}), (Shares{7, 2, 1}));
  EXPECT_EQ(shares_of({50, 25, 25}), (Shares{2, 1, 1}));
  EXPECT_EQ(shares_of({1e-3}), (Shares{1}));
  EXPECT_EQ(shares_of({0.333333, 0.666667}), (Shares{333333, 666667}));
}

TEST(WholeShares, AreRoundedWhereTheyWouldBeTooLarge) {
  const Shares of_sizes = shares_of({123'456'789, 987'654'321});
  EXPECT_EQ(of_sizes, (Shares{111'111, 888'889}));
  const Shares tiny = whole_shares({1e9, 1, 1}, 1000);
  EXPECT_EQ(tiny, (Shares{998, 1, 1}));
  const Weights weights{std::sqrt(2.0), std::sqrt(3.0), M_PI};
  const Shares many = whole_shares(weights, 1000);
  const auto sum = static_cast<double>(std::accumulate(many.begin(), many.end(), 0LL));
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_NEAR(static_cast<double>(many[i]) / sum,
                weights[i] / (weights[0] + weights[1] + weights[2]), 1e-3);
}

TEST(WholeShares, RefusesWhatIsNoWeight) {
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THROW(shares_of({1, bad}), Error) << bad;
  EXPECT_THROW(shares_of({}), Error);
  EXPECT_THROW(whole_shares({1, 1, 1}, 2), Error);
}

TEST(Interleaving, NeverStraysByADraw) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Weights weights(1 + random() % 12);
    for (double& weight : weights) weight = 1 + static_cast<double>(random() % 40);
    const Interleaving turns(weights);
    const double distance =
        largest_distance(turns.shares(), 2 * turns.period() + 1,
                         [&](std::int64_t draw) { return turns.turn(draw).source; });
    EXPECT_LT(distance, 1) << testing::PrintToString(weights);
  }
}

// The comparator detects an order that is not even: one source after the other.
TEST(Interleaving, OfBlocksStrays) {
  const auto in_blocks = [](std::int64_t draw) { return draw % 4 < 2 ? std::size_t{0} : 1; };
  EXPECT_GE(largest_distance({1, 1}, 4, in_blocks), 1);
}

TEST(Interleaving, NumbersEachSourcesDrawsWithoutGaps) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    Weights weights(2 + random() % 5);
    for (double& weight : weights) weight = 1 + static_cast<double>(random() % 9);
    const Interleaving turns(weights);
    std::vector<std::int64_t> next(weights.size(), 0);
    for (std::int64_t draw = 0; draw < 3 * turns.period(); ++draw) {
      for (std::size_t source = 0; source < next.size(); ++source)
        ASSERT_EQ(turns.count(source, draw), next[source]);
      const Interleaving::Turn turn = turns.turn(draw);
      ASSERT_EQ(turn.number, next[turn.source]++);
    }
  }
}

TEST(Interleaving, IsEvenAlsoWhereSharesAreFine) {
  const Interleaving turns({std::sqrt(2.0), std::sqrt(3.0), M_PI, 0.001});
  EXPECT_LE(turns.period(), Interleaving::longest_period);
  EXPECT_LT(largest_distance(turns.shares(), turns.period(),
                             [&](std::int64_t draw) { return turns.turn(draw).source; }),
            1);
}

TEST(MixtureSampler, DrawsAPartByItsWeightWhateverItsSize) {
  const Sampler sampler({{.size = 10, .weight = 3}, {.size = 90, .weight = 1}}, Order::shuffle, 5);
  EXPECT_EQ(sampler.size(), 100);
  std::vector<std::int64_t> times(100, 0);
  for (std::int64_t draw = 0; draw < 400; ++draw)
    ++times[static_cast<std::size_t>(sampler.sample(draw))];
  for (std::size_t sample = 0; sample < 10; ++sample) EXPECT_EQ(times[sample], 30);
  EXPECT_EQ(std::accumulate(times.begin() + 10, times.end(), 0LL), 100);
  EXPECT_EQ(sampler.draws_of(0, 400), 300);
  EXPECT_EQ(sampler.draws_of(1, 400), 100);
}

// Each part is gone through whole before any of its samples comes again.
TEST(MixtureSampler, GoesThroughEachPartByItself) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<WeightedPart> parts(1 + random() % 4);
    for (WeightedPart& part : parts)
      part = {.size = 1 + static_cast<std::int64_t>(random() % 30),
              .weight = 1 + static_cast<double>(random() % 5)};
    const Sampler sampler(parts, Order::shuffle, random());
    std::vector<std::vector<std::int64_t>> drawn(parts.size());
    for (std::int64_t draw = 0; draw < 5 * sampler.size(); ++draw) {
      std::int64_t sample = sampler.sample(draw);
      std::size_t part = 0;
      for (; sample >= parts[part].size; ++part) sample -= parts[part].size;
      drawn[part].push_back(sample);
    }
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const auto size = static_cast<std::size_t>(parts[part].size);
      std::vector<std::int64_t> in_order(size);
      std::iota(in_order.begin(), in_order.end(), 0);
      for (std::size_t begin = 0; begin + size <= drawn[part].size(); begin += size) {
        const auto first = drawn[part].begin() + static_cast<std::ptrdiff_t>(begin);
        std::vector<std::int64_t> pass(first, first + static_cast<std::ptrdiff_t>(size));
        std::sort(pass.begin(), pass.end());
        ASSERT_EQ(pass, in_order);
      }
    }
  }
}

TEST(MixtureSampler, WalksEachPartInOrderWhereSequential) {
  const Sampler sampler({{.size = 2, .weight = 2}, {.size = 3, .weight = 1}}, Order::sequential, 1);
  std::vector<std::int64_t> drawn;
  for (std::int64_t draw = 0; draw < 9; ++draw) drawn.push_back(sampler.sample(draw));
  std::vector<std::int64_t> of_first, of_second;
  for (const std::int64_t sample : drawn) (sample < 2 ? of_first : of_second).push_back(sample);
  EXPECT_EQ(of_first, (Shares{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(of_second, (Shares{2, 3, 4}));
  EXPECT_FALSE(sampler.repeats_epochs());
}

TEST(MixtureSampler, OfOnePartIsASamplerOfItsSize) {
  const Sampler mixed({{.size = 37, .weight = 5}}, Order::shuffle, 9), plain(37, Order::shuffle, 9);
  for (std::int64_t draw = 0; draw < 100; ++draw) ASSERT_EQ(mixed.sample(draw), plain.sample(draw));
}

TEST(MixtureSampler, ShufflesPartsOfOneSizeDifferently) {
  const Sampler sampler({{.size = 50}, {.size = 50}}, Order::shuffle, 2);
  std::vector<std::int64_t> first, second;
  for (std::int64_t draw = 0; draw < 100; ++draw) {
    const std::int64_t sample = sampler.sample(draw);
    (sample < 50 ? first : second).push_back(sample % 50);
  }
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace accrue::batch
