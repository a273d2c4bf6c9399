#include "data/tokenizer/unicode/code_points.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>
#include <vector>

namespace accrue::data {
namespace {

constexpr char32_t looked_at = 64;
using Bits = std::bitset<looked_at>;

Bits bits_of(const CodePoints& set) {
  Bits bits;
  for (char32_t c = 0; c < looked_at; ++c) bits[c] = set.has(c);
  return bits;
}

CodePoints drawn_set(std::mt19937& random) {
  std::vector<CodePoints::Range> ranges;
  for (unsigned i = 0; i < random() % 6; ++i) {
    const char32_t first = random() % looked_at;
    ranges.push_back({first, static_cast<char32_t>(first + random() % 5)});
  }
  return CodePoints(ranges);
}

TEST(CodePoints, KeepsRangesInOrderAndApart) {
  const CodePoints set({{5, 6}, {1, 2}, {3, 3}, {6, 9}});
  EXPECT_EQ(set.ranges(), (std::vector<CodePoints::Range>{{1, 3}, {5, 9}}));
  EXPECT_EQ(CodePoints({{5, 9}, {1, 3}}), set);
  EXPECT_TRUE(CodePoints().is_empty());
  EXPECT_EQ(~CodePoints(), CodePoints::all());
  EXPECT_TRUE((~CodePoints::all()).is_empty());
  EXPECT_TRUE((~set).has(CodePoints::largest));
}

TEST(CodePoints, AreCombinedAsSetsAre) {
  std::mt19937 random(3);
  int common = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const CodePoints a = drawn_set(random), b = drawn_set(random);
    ASSERT_EQ(bits_of(a | b), bits_of(a) | bits_of(b));
    ASSERT_EQ(bits_of(a & b), bits_of(a) & bits_of(b));
    ASSERT_EQ(bits_of(a - b), bits_of(a) & ~bits_of(b));
    ASSERT_EQ(bits_of(~a), ~bits_of(a));
    ASSERT_EQ(~~a, a);
    common += (a & b).is_empty() ? 0 : 1;
  }
  EXPECT_GT(common, 300) << "the control: sets that have something in common";
}

}  // namespace
}  // namespace accrue::data
