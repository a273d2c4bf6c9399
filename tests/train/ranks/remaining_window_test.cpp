#include "train/ranks/remaining_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/errors.h"

namespace accrue::train {
namespace {

using accrue::testing::error_of;
using batch::Range;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RemainingWindow, IsTheShareOfOneThatIsGone) {
  EXPECT_THAT(divide_remaining_window({10, 22}, {{{10, 12}, {12, 14}}, {{18, 20}, {20, 22}}}, 2),
              ElementsAre(ElementsAre(Range{14, 16}), ElementsAre(Range{16, 18})));
}

TEST(RemainingWindow, CanBeInSeveralPlacesAndLessThanThereAreRanks) {
  EXPECT_THAT(
      divide_remaining_window({0, 9}, {{{2, 4}}, {{6, 8}}, {}}, 2),
      ElementsAre(ElementsAre(Range{0, 2}), ElementsAre(Range{4, 6}), ElementsAre(Range{8, 9})));
  EXPECT_THAT(divide_remaining_window({0, 4}, {{{0, 2}}, {}, {}}, 2),
              ElementsAre(ElementsAre(Range{2, 4}), IsEmpty(), IsEmpty()));
  EXPECT_THAT(divide_remaining_window({0, 4}, {{{0, 4}}, {}}, 2),
              ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(RemainingWindow, IsRefusedWhereSamplesWouldCountTwice) {
  for (const RangesOfRanks& done :
       {RangesOfRanks{{{0, 4}}, {{2, 6}}}, RangesOfRanks{{{0, 4}}, {{0, 4}}},
        RangesOfRanks{{{6, 12}}, {}}, RangesOfRanks{{{-2, 2}}, {}}, RangesOfRanks{{{3, 3}}, {}}})
    EXPECT_THAT(error_of(
                    [&] {
                      divide_remaining_window({0, 10}, done, 2);
                    },
                    Error::Kind::runtime),
                HasSubstr("without overlap"));
}

TEST(RemainingWindow, IsNothingOfRanksThatMayNotWork) {
  const RangesOfRanks done{{{0, 2}}, {{4, 6}}, {}};
  std::vector<RankRecord> records(3);
  for (RankRecord& record : records) record.micro_batch = 2;
  const auto part = [&](std::size_t rank, const std::vector<double>& allowed) {
    return part_of_rank(rank, {0, 12}, done, records, allowed);
  };
  EXPECT_THAT(part(0, {1, 0, 0.5}), ElementsAre(Range{0, 2}, Range{2, 4}, Range{6, 8}));
  EXPECT_THAT(part(1, {1, 0, 0.5}), ElementsAre(Range{4, 6}));
  EXPECT_THAT(part(2, {1, 0, 0.5}), ElementsAre(Range{8, 10}, Range{10, 12}));
  EXPECT_THAT(part(0, {0, 1, 0}), ElementsAre(Range{0, 2}));
  EXPECT_THAT(part(1, {0, 1, 0}),
              ElementsAre(Range{4, 6}, Range{2, 4}, Range{6, 8}, Range{8, 10}, Range{10, 12}));
  EXPECT_EQ(part(0, {}).size() + part(1, {}).size() + part(2, {}).size(), 6U);
}

TEST(RemainingWindow, IsToldInTexts) {
  const std::vector<Range> ranges{{0, 4}, {8, 12}};
  EXPECT_EQ(ranges_from_text(to_text(ranges)), ranges);
  EXPECT_THAT(ranges_from_text("[]"), IsEmpty());
  for (const char* text : {"", "{}", "7", "[4]", "[[4]]", "[[0,4,8]]", "[[0,4.5]]", "[[0,1e20]]",
                           "[[0,18446744073709551615]]", "[[0,\"4\"]]"})
    EXPECT_THAT(error_of([&] { ranges_from_text(text); }, Error::Kind::runtime),
                HasSubstr("ranges that a rank has done"))
        << text;
}

/// Ranks that did any micro-batches of a window, followed by any number of ranks: each micro-batch
/// of the undivided window is in exactly one place.
TEST(RemainingWindow, TogetherWithWhatIsDoneIsTheWindow) {
  std::mt19937 random(11);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution(from, to)(random);
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const std::int64_t begin = draw(0, 50), micro = draw(1, 5);
    const Range window{begin, begin + draw(1, 60)};
    RangesOfRanks done(static_cast<std::size_t>(draw(1, 6)));
    const std::vector<Range> undivided = batch::split(window, micro);
    for (const Range& range : undivided)
      if (draw(0, 1) == 1)
        done[static_cast<std::size_t>(draw(0, std::ssize(done) - 1))].push_back(range);
    std::vector<Range> all;
    for (const auto& of_rank : done) all.insert(all.end(), of_rank.begin(), of_rank.end());
    const RangesOfRanks left = divide_remaining_window(window, done, micro);
    ASSERT_EQ(left.size(), done.size());
    for (const auto& of_rank : left) {
      EXPECT_LE(of_rank.size(), left.front().size());
      EXPECT_GE(of_rank.size() + 1, left.front().size());
      all.insert(all.end(), of_rank.begin(), of_rank.end());
    }
    std::ranges::sort(all, {}, &Range::begin);
    ASSERT_EQ(all, undivided);
  }
}

}  // namespace
}  // namespace accrue::train
