#include "core/even_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace accrue {
namespace {

std::vector<std::int64_t> parts_of(std::int64_t samples, std::int64_t most) {
  std::vector<std::int64_t> parts;
  for (; samples > 0; samples -= parts.back()) parts.push_back(even_part(samples, most));
  return parts;
}

TEST(EvenParts, LeaveNoShortLastOne) {
  using Parts = std::vector<std::int64_t>;
  EXPECT_EQ(parts_of(9, 4), (Parts{3, 3, 3}));
  EXPECT_EQ(parts_of(10, 4), (Parts{4, 3, 3}));
  EXPECT_EQ(parts_of(8, 4), (Parts{4, 4}));
  EXPECT_EQ(parts_of(5, 4), (Parts{3, 2}));
  EXPECT_EQ(parts_of(3, 4), (Parts{3}));
  EXPECT_EQ(parts_of(3, 1), (Parts{1, 1, 1}));
}

TEST(EvenParts, AreAsFewAsThereCanBeAndDifferByOneAtMost) {
  for (std::int64_t samples = 1; samples < 200; ++samples)
    for (std::int64_t most = 1; most < 40; ++most) {
      const std::vector<std::int64_t> parts = parts_of(samples, most);
      EXPECT_EQ(std::ssize(parts), (samples + most - 1) / most);
      const auto [least, largest] = std::ranges::minmax(parts);
      EXPECT_LE(largest, most);
      EXPECT_LE(largest - least, 1);
    }
}

}  // namespace
}  // namespace accrue
