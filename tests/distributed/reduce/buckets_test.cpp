#include "distributed/reduce/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::distributed {
namespace {

using ::testing::ElementsAre;

/// Registration order is the reverse of the order in the buffer.
const std::vector<SlotPlace> kPlaces{{0, 48, 20}, {0, 32, 10}, {0, 0, 30}, {1, 0, 5}};
/// Buckets this near the end may have an eighth of it, 44.
constexpr std::int64_t kSize = 352;

TEST(Buckets, FollowTheBufferAndTakeWholeSlots) {
  const std::vector<Bucket> buckets = make_buckets(kPlaces, kSize);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_THAT(buckets[0].slots, ElementsAre(2, 1));
  EXPECT_EQ(buckets[0].elements, 42);
  EXPECT_THAT(buckets[1].slots, ElementsAre(0));
  EXPECT_EQ(buckets[1].offset, 48);
  EXPECT_EQ(buckets[1].elements, 20);
  EXPECT_THAT(buckets[2].slots, ElementsAre(3));
  EXPECT_EQ(buckets[2].flat, 1U);
}

TEST(Buckets, ASlotThatIsTooLargeIsABucket) {
  EXPECT_EQ(make_buckets(kPlaces, 1).size(), kPlaces.size());
}

TEST(Buckets, AreSmallerTowardsTheEnd) {
  std::vector<SlotPlace> places;
  for (std::int64_t slot = 0; slot < 100; ++slot) places.push_back({0, 10 * slot, 10});
  std::vector<std::int64_t> sizes;
  for (const Bucket& bucket : make_buckets(places, 160)) sizes.push_back(bucket.elements);
  EXPECT_THAT(sizes, ElementsAre(160, 160, 160, 130, 90, 70, 50, 40, 30, 20, 20, 20, 20, 20, 10));
}

TEST(Buckets, AreOrderedByTheLastSlotThatWasFinal) {
  const std::vector<Bucket> buckets = make_buckets(kPlaces, kSize);
  const std::vector<std::int64_t> final_at{1, 3, 2, 2};
  EXPECT_THAT(readiness_order(buckets, final_at), ElementsAre(1, 2, 0));
}

}  // namespace
}  // namespace accrue::distributed
