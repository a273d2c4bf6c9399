#include "distributed/compress/compression_shards.h"

#include <gmock/gmock.h>

#include "support/errors.h"

namespace accrue::distributed {
namespace {

using accrue::testing::usage_message;
using ::testing::HasSubstr;

TEST(CompressionShards, ShardsOfOneSizeCoverTheBufferOnce) {
  const CompressionShards layout(100, 3, 16);
  EXPECT_EQ(layout.shard_elements(), 48) << "a third is 34, the next multiple of 16 is 48";
  EXPECT_EQ(layout.padded_elements(), 144);
  std::int64_t end = 0;
  for (std::int64_t rank = 0; rank < layout.world(); ++rank) {
    EXPECT_EQ(layout.range(rank).offset, end);
    end += layout.range(rank).elements;
  }
  EXPECT_EQ(end, layout.elements());
}

TEST(CompressionShards, LastShardsMayBeEmpty) {
  const CompressionShards layout(20, 4, 16);
  EXPECT_EQ(layout.range(1).elements, 4);
  EXPECT_EQ(layout.range(3).elements, 0);
}

TEST(CompressionShards, RefusesWhatIsNone) {
  EXPECT_THAT(usage_message([] { CompressionShards(10, 0); }), HasSubstr("a world size"));
  EXPECT_THAT(usage_message([] { CompressionShards(-1, 1); }), HasSubstr("elements"));
  EXPECT_THAT(usage_message([] { CompressionShards(1, 1, 0); }), HasSubstr("an alignment"));
}

}  // namespace
}  // namespace accrue::distributed
