#include "accrue/dist/shard_layout.h"

#include <gmock/gmock.h>

#include <random>

#include "support/errors.h"

namespace accrue::dist {
namespace {

using accrue::testing::usage_message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardLayout, CutsParametersWhereShardsEnd) {
  const ShardLayout layout(100, 3, 16);
  EXPECT_EQ(layout.shard_elements(), 48) << "a third is 34, the next multiple of 16 is 48";
  EXPECT_EQ(layout.padded_elements(), 144);
  const std::vector<FlatRange> parameters{{0, 40}, {48, 30}, {80, 20}};
  EXPECT_THAT(layout.pieces(0, parameters), ElementsAre(ShardPiece{0, 0, 0, 40}));
  EXPECT_THAT(layout.pieces(1, parameters),
              ElementsAre(ShardPiece{1, 0, 0, 30}, ShardPiece{2, 0, 32, 16}));
  EXPECT_THAT(layout.pieces(2, parameters), ElementsAre(ShardPiece{2, 16, 0, 4}));
}

TEST(ShardLayout, LastShardsMayBeEmpty) {
  const ShardLayout layout(20, 4, 16);
  EXPECT_EQ(layout.range(1).elements, 4);
  EXPECT_EQ(layout.range(3).elements, 0);
  EXPECT_THAT(layout.pieces(3, std::vector<FlatRange>{{0, 20}}), ElementsAre());
}

/// What a rank's pieces say of each element of a buffer.
void mark_pieces(const ShardLayout& layout, std::int64_t rank,
                 const std::vector<FlatRange>& parameters, std::vector<int>& marks) {
  for (const ShardPiece& piece : layout.pieces(rank, parameters)) {
    EXPECT_LE(piece.shard_begin + piece.elements, layout.range(rank).elements);
    for (std::int64_t i = 0; i < piece.elements; ++i) {
      const std::int64_t by_parameter =
          parameters[piece.parameter].offset + piece.parameter_begin + i;
      EXPECT_EQ(by_parameter, layout.range(rank).offset + piece.shard_begin + i);
      ++marks[static_cast<std::size_t>(by_parameter)];
    }
  }
}

TEST(ShardLayout, EveryElementOfAParameterIsInOnePiece) {
  std::mt19937_64 random(11);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<FlatRange> parameters;
    std::int64_t end = 0;
    for (std::int64_t count = draw(1, 8); count > 0; --count) {
      const std::int64_t gap = draw(0, 5), size = draw(0, 70);
      parameters.push_back({end + gap, size});
      end += gap + size;
    }
    const ShardLayout layout(end, draw(1, 9), draw(1, 20));
    std::vector<int> marks(static_cast<std::size_t>(end)), expected(marks);
    for (std::int64_t rank = 0; rank < layout.world(); ++rank)
      mark_pieces(layout, rank, parameters, marks);
    for (const FlatRange& parameter : parameters)
      for (std::int64_t i = 0; i < parameter.elements; ++i)
        expected[static_cast<std::size_t>(parameter.offset + i)] = 1;
    EXPECT_EQ(marks, expected);
  }
}

TEST(ShardLayout, RefusesWhatIsNone) {
  EXPECT_THAT(usage_message([] { ShardLayout(10, 0); }), HasSubstr("a world size"));
  EXPECT_THAT(usage_message([] { ShardLayout(-1, 1); }), HasSubstr("elements"));
  EXPECT_THAT(usage_message([] { ShardLayout(1, 1, 0); }), HasSubstr("an alignment"));
}

}  // namespace
}  // namespace accrue::dist
