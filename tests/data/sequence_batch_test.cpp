#include "data/sequence_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rng.h"
#include "folder.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using testing::values;

std::vector<std::int64_t> random_lengths(std::int64_t count, std::int64_t longest,
                                         std::uint64_t seed) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = random_word(seed, 1, static_cast<std::uint64_t>(i));
    lengths.push_back(1 + static_cast<std::int64_t>(word % static_cast<std::uint64_t>(longest)));
  }
  return lengths;
}

/// Row by row from the front, each sample in the first row where it fits: counts the contents of
/// each row again for every sample.
::testing::AssertionResult is_first_fit(const std::vector<SampleSpan>& spans,
                                        const std::vector<std::int64_t>& lengths,
                                        std::int64_t capacity) {
  if (spans.size() != lengths.size()) return ::testing::AssertionFailure() << "a sample is missing";
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].end - spans[i].begin != lengths[i])
      return ::testing::AssertionFailure() << "sample " << i << " has another length";
    for (std::int64_t row = 0; row <= spans[i].row; ++row) {
      std::int64_t used = 0;
      for (std::size_t before = 0; before < i; ++before)
        if (spans[before].row == row) used += lengths[before];
      const bool fits = used + lengths[i] <= capacity;
      const bool is_there = row == spans[i].row;
      if (fits != is_there)
        return ::testing::AssertionFailure() << "sample " << i << " is elsewhere";
      if (is_there && spans[i].begin != used)
        return ::testing::AssertionFailure() << "sample " << i << " leaves a gap or overlaps";
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(FirstFit, PutsEachSampleIntoTheFirstRowWithRoom) {
  for (const std::int64_t capacity : {1, 7, 64}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto lengths = random_lengths(40, capacity, seed);
      EXPECT_TRUE(is_first_fit(first_fit(lengths, capacity), lengths, capacity));
    }
  }
  EXPECT_TRUE(first_fit({}, 5).empty());
}

TEST(FirstFit, ComparatorRefusesOtherPlaces) {
  const std::vector<std::int64_t> lengths{5, 4, 3, 2, 1};
  const auto spans = first_fit(lengths, 8);
  ASSERT_TRUE(is_first_fit(spans, lengths, 8));
  EXPECT_FALSE(is_first_fit(spans, lengths, 9));
  EXPECT_FALSE(is_first_fit(spans, lengths, 7));
  EXPECT_FALSE(is_first_fit(one_a_row(lengths), lengths, 8));
  auto shifted = spans;
  ++shifted[2].begin, ++shifted[2].end;
  EXPECT_FALSE(is_first_fit(shifted, lengths, 8));
}

const std::vector<Sequence> three{{.inputs = {1, 2, 3}, .targets = {2, 3, 4}},
                                  {.inputs = {5}, .targets = {-100}},
                                  {.inputs = {6, 7}, .targets = {7, 8}}};

TEST(MicroBatch, IsPaddedOnTheRightToTheLongest) {
  const auto micro = make_micro_batch(three, one_a_row(std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(micro.inputs.sizes(), (at::IntArrayRef{3, 3}));
  EXPECT_THAT(values(micro.inputs), ElementsAre(1, 2, 3, 5, 0, 0, 6, 7, 0));
  EXPECT_THAT(values(micro.targets), ElementsAre(2, 3, 4, -100, -100, -100, 7, 8, -100));
  EXPECT_EQ(micro.tokens, 6);
  EXPECT_FALSE(micro.weights.defined());
}

TEST(MicroBatch, PacksIntoRowsAsShortAsTheLongestOfThem) {
  const auto micro = make_micro_batch(three, first_fit(std::vector<std::int64_t>{3, 1, 2}, 4));
  EXPECT_EQ(micro.inputs.sizes(), (at::IntArrayRef{2, 4}));
  EXPECT_THAT(values(micro.inputs), ElementsAre(1, 2, 3, 5, 6, 7, 0, 0));
  EXPECT_THAT(values(micro.targets), ElementsAre(2, 3, 4, -100, 7, 8, -100, -100));
  EXPECT_EQ(micro.tokens, 6);
}

TEST(MicroBatch, HasWeightsWhereOneIsNotOne) {
  std::vector<Sequence> weighted = three;
  weighted[2].weight = 0.25F;
  const auto micro = make_micro_batch(weighted, one_a_row(std::vector<std::int64_t>{3, 1, 2}));
  ASSERT_TRUE(micro.weights.defined());
  EXPECT_EQ(micro.weights.scalar_type(), at::kFloat);
  const auto* weight = micro.weights.const_data_ptr<float>();
  EXPECT_THAT(std::vector<float>(weight, weight + 9),
              ElementsAre(1, 1, 1, 1, 0, 0, 0.25F, 0.25F, 0));
}

TEST(MicroBatch, MayBeEmpty) {
  EXPECT_EQ(make_micro_batch({}, {}).inputs.sizes(), (at::IntArrayRef{0, 0}));
}

}  // namespace
}  // namespace accrue::data
