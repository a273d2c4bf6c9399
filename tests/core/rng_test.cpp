#include "core/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace accrue {
namespace {

TEST(Philox, MatchesThePublishedTestVectors) {
  // Random123's kat_vectors for philox4x32-10.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Permutation, VisitsEveryElementOnceForEverySize) {
  for (const std::uint64_t size : {1, 2, 3, 5, 16, 17, 1000, 4097}) {
    const Permutation permutation(size, 1337, 4);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, DiffersBetweenSeedsAndStreams) {
  const auto first = [](std::uint64_t seed, std::uint64_t stream) {
    const Permutation permutation(1000, seed, stream);
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 20; ++i) values.push_back(permutation(i));
    return values;
  };
  EXPECT_EQ(first(1, 2), first(1, 2));
  EXPECT_NE(first(1, 2), first(2, 2));
  EXPECT_NE(first(1, 2), first(1, 3));
}

TEST(FillNormal, HasTheMomentsOfAStandardNormal) {
  std::vector<float> values(200'001);
  fill_normal(values, 7, 1);
  double mean = 0, square = 0, fourth = 0;
  for (const double v : values) {
    mean += v;
    square += v * v;
    fourth += v * v * v * v;
  }
  const auto n = static_cast<double>(values.size());
  // Five standard errors of each moment: 1, sqrt(2), sqrt(96).
  EXPECT_NEAR(mean / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
}

TEST(FillNormal, HasTheSameValuesInParts) {
  std::vector<float> whole(1001), part(301);
  fill_normal(whole, 7, 1);
  fill_normal(part, 7, 1, 700);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 700));
  fill_normal(part, 7, 1, 698);
  EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + 700)) << "control";
}

}  // namespace
}  // namespace accrue
