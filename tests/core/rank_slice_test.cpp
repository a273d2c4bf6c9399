#include "accrue/core/rank_slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace accrue {
namespace {

std::vector<ElementRange> ranges(std::int64_t elements, std::size_t index, std::int64_t world) {
  std::vector<ElementRange> result;
  for (std::int64_t rank = 0; rank < world; ++rank)
    result.push_back(element_range_of(elements, index, {rank, world}));
  return result;
}

TEST(ElementRangeOf, CoversATensorOnceInGrains) {
  for (const std::int64_t elements : {0, 1, 2047, 2048, 2049, 10'000, 50'257 * 3})
    for (std::int64_t world = 1; world <= 5; ++world)
      for (std::size_t index = 0; index < 6; ++index) {
        std::vector<ElementRange> parts = ranges(elements, index, world);
        std::erase_if(parts, [](const ElementRange& part) { return part.elements == 0; });
        std::ranges::sort(parts, {}, &ElementRange::begin);
        std::int64_t end = 0;
        for (const ElementRange& part : parts) {
          EXPECT_EQ(part.begin, end);
          EXPECT_EQ(part.begin % kRangeGrain, 0);
          end += part.elements;
        }
        EXPECT_EQ(end, elements) << world << " ranks, tensor " << index;
      }
}

TEST(ElementRangeOf, DividesOneLargeTensorAndManySmallOnesEvenly) {
  constexpr std::int64_t world = 3, large = 1'000'000, small = 100;
  for (const ElementRange& part : ranges(large, 2, world))
    EXPECT_NEAR(static_cast<double>(part.elements), large / 3.0, kRangeGrain);
  std::vector<std::int64_t> owned(world, 0);
  for (std::size_t index = 0; index < 12; ++index)
    for (std::int64_t rank = 0; rank < world; ++rank)
      owned[static_cast<std::size_t>(rank)] +=
          element_range_of(small, index, {rank, world}).elements;
  EXPECT_EQ(owned, (std::vector<std::int64_t>(world, 4 * small)));
}

TEST(ElementRangeOf, OfTheOnlyOwnerIsAll) {
  EXPECT_EQ(element_range_of(4711, 5, {}), (ElementRange{0, 4711}));
}

}  // namespace
}  // namespace accrue
