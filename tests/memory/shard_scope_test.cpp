#include "accrue/memory/shard_scope.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/filled_with_zeros.h"
#include "accrue/memory/offload_passes.h"
#include "allocator_fixture.h"
#include "memory/page_ranges.h"

namespace accrue::memory {
namespace {

using ShardScopeTest = AllocatorTest;
using Ranges = std::vector<PageRange>;

at::Tensor sharded(std::int64_t mebi, MemoryTag tag = MemoryTag::parameters) {
  const MemoryTagScope scope(tag);
  return at::arange(mebi * kMebi / 4, at::kInt);
}

TEST_F(ShardScopeTest, TakesLargeParametersAndSumsAlone) {
  EXPECT_FALSE(has_shard_scope());
  EXPECT_FALSE(is_in_shard_scope(sharded(1)));
  const ShardScope scope;
  EXPECT_TRUE(is_in_shard_scope(sharded(1)));
  EXPECT_TRUE(is_in_shard_scope(sharded(1, MemoryTag::gradients).narrow(0, 7, 9)));
  EXPECT_FALSE(is_in_shard_scope(sharded(1, MemoryTag::optimizer)));
  EXPECT_FALSE(is_in_shard_scope(sharded(1, MemoryTag::packed)));
  EXPECT_FALSE(is_in_shard_scope(at::empty({kMebi})));
  const MemoryTagScope tag(MemoryTag::parameters);
  EXPECT_FALSE(is_in_shard_scope(at::empty({100})));
}

TEST_F(ShardScopeTest, KeepsTheValuesThatAreKeptAndCountsThem) {
  const ShardScope scope;
  const std::int64_t before = shard_usage().state;
  const at::Tensor state = sharded(4);
  const std::vector<at::Tensor> divided{state};
  const std::int64_t quarter = state.numel() / 4;
  const at::Tensor own = state.narrow(0, quarter, quarter);
  keep_in_scope(divided, {&own, 1});
  restart_shard_peak();
  EXPECT_EQ(shard_usage().state - before, 4 * kMebi);
  EXPECT_EQ(shard_usage().state - shard_usage().in_memory, 3 * kMebi);
  EXPECT_EQ(shard_usage().most_in_memory, shard_usage().in_memory);
  EXPECT_TRUE(own.equal(at::arange(quarter, 2 * quarter, at::kInt)));

  keep_in_scope(divided, divided);
  EXPECT_EQ(shard_usage().state, shard_usage().in_memory);
  EXPECT_TRUE(own.equal(at::arange(quarter, 2 * quarter, at::kInt)));
  EXPECT_FALSE(state.narrow(0, 2 * quarter, 2 * quarter).any().item<bool>()) << "zeros came back";

  keep_in_scope(divided, {&own, 1});
  EXPECT_EQ(shard_usage().most_in_memory, shard_usage().state);
}

TEST_F(ShardScopeTest, LeavesWhatIsNotDividedAlone) {
  const ShardScope scope;
  const at::Tensor divided = sharded(1), other = sharded(1);
  keep_in_scope({&divided, 1}, {});
  EXPECT_TRUE(other.equal(at::arange(other.numel(), at::kInt)));
}

/// Ranks that are threads of a process share the mapping.
TEST_F(ShardScopeTest, LeavesWhatWasTakenOutByAnotherCallOutOfMemory) {
  const ShardScope scope;
  const std::int64_t before = shard_usage().in_memory;
  const at::Tensor mine = sharded(1), theirs = sharded(2);
  keep_in_scope({&mine, 1}, {});
  keep_in_scope({&theirs, 1}, {});
  EXPECT_EQ(shard_usage().in_memory, before);
  keep_in_scope({&mine, 1}, {&mine, 1});
  EXPECT_EQ(shard_usage().in_memory - before, kMebi);
}

using Visited = std::vector<std::pair<std::int64_t, std::int64_t>>;

Visited visited_of(const at::Tensor& tensor) {
  Visited visited;
  for_pieces(tensor,
             [&](std::int64_t begin, std::int64_t count) { visited.emplace_back(begin, count); });
  return visited;
}

TEST_F(ShardScopeTest, KeepsThePartOfItsSliceUntilTheTensorIsDividedByACall) {
  const RankSlice slice{1, 3};
  const ShardScope scope(slice);
  const std::int64_t before = shard_usage().in_memory;
  const at::Tensor state = sharded(1);
  const std::int64_t elements = state.numel();
  EXPECT_FALSE(is_kept_in_part(state)) << "control";
  EXPECT_EQ(visited_of(state), (Visited{{0, elements}})) << "control";

  keep_part(state, 4);
  const ElementRange own = element_range_of(elements, 4, slice);
  EXPECT_TRUE(is_kept_in_part(state));
  EXPECT_EQ(kept_part(state), own);
  EXPECT_EQ(visited_of(state), (Visited{{own.begin, own.elements}}));
  EXPECT_EQ(shard_usage().in_memory - before, own.elements * 4);
  EXPECT_TRUE(state.narrow(0, own.begin, own.elements)
                  .equal(at::arange(own.begin, own.begin + own.elements, at::kInt)));
  EXPECT_EQ(kept_part(state.narrow(0, 0, own.begin + 5)), (ElementRange{own.begin, 5}));

  keep_in_scope({&state, 1}, {&state, 1});
  EXPECT_FALSE(is_kept_in_part(state));
  EXPECT_EQ(shard_usage().in_memory - before, kMebi);
  EXPECT_EQ(state.narrow(0, own.begin, 1).item<int>(), own.begin) << "its part has its values";
  EXPECT_FALSE(state.narrow(0, 0, own.begin).any().item<bool>()) << "what was lost is zero";
}

TEST_F(ShardScopeTest, FillsWhatIsKeptInPartWithZerosForAWhile) {
  const ShardScope scope(RankSlice{1, 3});
  const at::Tensor part = sharded(1), whole = sharded(1);
  keep_part(part, 0);
  const ElementRange own = kept_part(part);
  const std::int64_t before = shard_usage().in_memory;
  {
    const FilledWithZeros filled({part, whole});
    EXPECT_FALSE(part.narrow(0, 0, own.begin).any().item<bool>());
    EXPECT_EQ(part.narrow(0, own.begin, 1).item<int>(), own.begin);
  }
  EXPECT_EQ(kept_part(part), own);
  EXPECT_EQ(shard_usage().in_memory, before);
  EXPECT_TRUE(part.narrow(0, own.begin, own.elements)
                  .equal(at::arange(own.begin, own.begin + own.elements, at::kInt)));
  EXPECT_TRUE(whole.equal(at::arange(whole.numel(), at::kInt)));
}

TEST_F(ShardScopeTest, KeepsWholeTensorsWithoutASlice) {
  const ShardScope scope;
  const at::Tensor state = sharded(1);
  keep_part(state, 0);
  EXPECT_FALSE(is_kept_in_part(state));
  EXPECT_TRUE(state.equal(at::arange(state.numel(), at::kInt)));
}

TEST_F(ShardScopeTest, NewTensorsAreZeroAndGivenMemoryIsReturned) {
  const ShardScope scope;
  const std::int64_t before = shard_usage().state;
  {
    const MemoryTagScope tag(MemoryTag::gradients);
    const at::Tensor made = zeros({kMebi}, at::kFloat);
    EXPECT_TRUE(is_in_shard_scope(made));
    EXPECT_FALSE(made.any().item<bool>());
    keep_in_scope({&made, 1}, {});
    EXPECT_EQ(shard_usage().state - before, 4 * kMebi);
  }
  EXPECT_EQ(shard_usage().state, before);
  EXPECT_EQ(shard_usage().in_memory, before);
}

/// An access that is forgotten somewhere never reads a wrong value.
TEST_F(ShardScopeTest, AnAccessToWhatIsNotInMemoryIsAnError) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const ShardScope scope;
        const at::Tensor state = sharded(1);
        keep_in_scope({&state, 1}, {});
        state.sum().item<std::int64_t>();
      },
      ::testing::ExitedWithCode(1),
      "error: divide the model among ranks \\(dist.shard = \"all\"\\).*not in memory");
}

TEST_F(ShardScopeTest, IsOneInAProcess) {
  const ShardScope scope;
  EXPECT_THROW(ShardScope{}, Error);
}

/// By marks for each page.
Ranges without_by_marks(const Ranges& ranges, const Ranges& others, std::size_t end) {
  std::vector<bool> marks(end);
  for (const PageRange& range : ranges)
    for (std::size_t i = range.begin; i < range.end; ++i) marks[i] = true;
  for (const PageRange& range : others)
    for (std::size_t i = range.begin; i < range.end; ++i) marks[i] = false;
  Ranges left;
  for (std::size_t i = 0; i < end; ++i)
    if (marks[i]) left.push_back({i, i + 1});
  return merged(left);
}

TEST(PageRanges, WithoutOthersAreWhatMarksSay) {
  constexpr std::size_t kEnd = 40;
  std::mt19937 random(1);
  const auto some = [&] {
    Ranges ranges;
    for (std::size_t left = random() % 6; left > 0; --left) {
      const std::size_t begin = random() % kEnd;
      ranges.push_back({begin, std::min<std::size_t>(kEnd, begin + random() % 9)});
    }
    return merged(ranges);
  };
  for (int round = 0; round < 2000; ++round) {
    const Ranges ranges = some(), others = some();
    EXPECT_EQ(merged(without(ranges, others)), without_by_marks(ranges, others, kEnd));
  }
  EXPECT_NE(without({{0, 4}}, {{1, 2}}), without_by_marks({{0, 4}}, {{1, 3}}, kEnd)) << "control";
}

}  // namespace
}  // namespace accrue::memory
