#include "batch/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::batch {
namespace {

std::vector<std::int64_t> epoch_of(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(sampler.size()));
  std::iota(samples.begin(), samples.end(), epoch * sampler.size());
  std::transform(samples.begin(), samples.end(), samples.begin(),
                 [&](std::int64_t ordinal) { return sampler.sample(ordinal); });
  return samples;
}

std::vector<std::int64_t> in_order(std::int64_t size) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(size));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

TEST(Sampler, TakesEachSampleOnceInEveryShuffledEpoch) {
  for (const std::int64_t size : {1, 2, 7, 256, 1000}) {
    const Sampler sampler(size, Order::shuffle, 1337);
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      auto samples = epoch_of(sampler, epoch);
      std::sort(samples.begin(), samples.end());
      EXPECT_EQ(samples, in_order(size)) << "size " << size << ", epoch " << epoch;
    }
  }
}

TEST(Sampler, WalksInOrderWhereSequential) {
  const Sampler sampler(5, Order::sequential, 1337);
  EXPECT_EQ(epoch_of(sampler, 0), in_order(5));
  EXPECT_EQ(epoch_of(sampler, 3), in_order(5));
}

TEST(Sampler, ShufflesAnewForEveryEpochAndSeed) {
  const Sampler sampler(1000, Order::shuffle, 1337);
  EXPECT_NE(epoch_of(sampler, 0), in_order(1000));
  EXPECT_NE(epoch_of(sampler, 0), epoch_of(sampler, 1));
  EXPECT_NE(epoch_of(sampler, 0), epoch_of(Sampler(1000, Order::shuffle, 1338), 0));
}

// A sampler that is made again at any position continues as the first one would have.
TEST(Sampler, ResumesAtAnyPosition) {
  const Sampler first(97, Order::shuffle, 5);
  std::vector<std::int64_t> whole;
  for (std::int64_t ordinal = 0; ordinal < 3 * 97; ++ordinal)
    whole.push_back(first.sample(ordinal));
  for (const std::int64_t position : {1, 50, 97, 200}) {
    const Sampler resumed(97, Order::shuffle, 5);
    for (std::int64_t ordinal = position; ordinal < 3 * 97; ++ordinal)
      ASSERT_EQ(resumed.sample(ordinal), whole[static_cast<std::size_t>(ordinal)]);
  }
}

// A shuffle must also separate neighbours: in a random permutation the mean distance of
// consecutive samples is size / 3, with a standard deviation of its mean below size /
// sqrt(size).
TEST(Sampler, SeparatesNeighbours) {
  constexpr std::int64_t size = 10'000;
  const auto samples = epoch_of(Sampler(size, Order::shuffle, 9), 0);
  double distance = 0;
  for (std::size_t i = 1; i < samples.size(); ++i)
    distance += static_cast<double>(std::abs(samples[i] - samples[i - 1]));
  EXPECT_NEAR(distance / (size - 1), size / 3.0, 3 * 100);
}

TEST(Sampler, RefusesAnEmptyEpochAndNegativeOrdinals) {
  EXPECT_THROW(Sampler(0, Order::shuffle, 1), Error);
  EXPECT_THROW(Sampler(4, Order::shuffle, 1).sample(-1), Error);
}

}  // namespace
}  // namespace accrue::batch
