#include "memory/size_class.h"

#include <gtest/gtest.h>

namespace accrue::memory {
namespace {

TEST(SizeClassTest, ClassesAreAnEighthApart) {
  struct Case {
    std::size_t bytes, capacity_bytes;
  };
  constexpr std::size_t kKibi = 1024, kMebi = kKibi * kKibi;
  for (const Case& c :
       {Case{64 * kKibi, 64 * kKibi}, Case{64 * kKibi + 1, 72 * kKibi},
        Case{72 * kKibi, 72 * kKibi}, Case{127 * kKibi, 128 * kKibi}, Case{2 * kMebi, 2 * kMebi},
        Case{2 * kMebi + 1, 2 * kMebi + 256 * kKibi}, Case{1000 * kMebi, 1024 * kMebi}})
    EXPECT_EQ(size_class_of(c.bytes).capacity_bytes, c.capacity_bytes) << c.bytes;
}

TEST(SizeClassTest, EachCapacityHasOneIndexAndHoldsWhatItIsAskedFor) {
  for (std::size_t bytes = kSmallestCachedBytes; bytes < (std::size_t{1} << 40);
       bytes += bytes / 23 + 1) {
    const SizeClass found = size_class_of(bytes);
    ASSERT_GE(found.capacity_bytes, bytes);
    ASSERT_LE(found.capacity_bytes - bytes, bytes / kClassesPerDoubling);
    ASSERT_EQ(found.capacity_bytes % 4096, 0U);
    ASSERT_LT(found.index, kSizeClasses);
    ASSERT_EQ(size_class_of(found.capacity_bytes).index, found.index) << bytes;
    ASSERT_EQ(size_class_of(found.capacity_bytes + 1).index, found.index + 1) << bytes;
  }
}

}  // namespace
}  // namespace accrue::memory
