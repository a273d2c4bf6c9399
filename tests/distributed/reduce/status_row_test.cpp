#include "distributed/reduce/status_row.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "support/errors.h"

namespace accrue::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankStatus status_in(std::int64_t window) {
  return {.window = window,
          .weight = 2.5,
          .loss_sum = 7,
          .micro_batches = 3,
          .quarantined = 1,
          .rank_sums = {11},
          .figures = {64, 0.5},
          .loss_sums = {4, 5},
          .contributions = {3, 2},
          .units = {-20, -21}};
}

TEST(StatusRow, AddsUpWhatRanksSayOfOneWindow) {
  const RankStatus status = status_in(7);
  const Agreed agreed = agree({from_row(to_row(status), status), status});
  EXPECT_EQ(agreed.verdict, Agreed::Verdict::whole);
  EXPECT_EQ(agreed.totals.weight, 5);
  for (const accum::RankStatement& rank : agreed.totals.of_ranks) {
    EXPECT_EQ(rank.weight, 2.5);
    EXPECT_EQ(rank.quarantined, 1);
    EXPECT_THAT(rank.figures, ElementsAre(64, 0.5));
  }
  EXPECT_EQ(agreed.totals.of_ranks.size(), 2U);
  EXPECT_EQ(agreed.totals.loss_sum, 14);
  EXPECT_EQ(agreed.totals.micro_batches, 6);
  EXPECT_EQ(agreed.totals.quarantined, 2);
  EXPECT_THAT(agreed.totals.rank_sums, ElementsAre(22));
  EXPECT_THAT(agreed.loss_sums, ElementsAre(8, 10));
  EXPECT_THAT(agreed.contributions, ElementsAre(6, 4));
  EXPECT_THAT(agreed.units, ElementsAre(-20, -21));
}

TEST(StatusRow, TakesTheLargestUnitsAndNamesWhoseWereSmaller) {
  const RankStatus first = status_in(7);
  RankStatus second = first, third = first;
  second.units = {-19, -22};
  third.units = {-19, -21};
  const Agreed agreed = agree({first, second, third});
  EXPECT_EQ(agreed.verdict, Agreed::Verdict::again);
  EXPECT_THAT(agreed.units, ElementsAre(-19, -21));
  EXPECT_EQ(agreed.reason, "the fixed-point units of rank 0, rank 1 were too small");
}

TEST(StatusRow, TellsThatARankHasSomethingLeftWhereNothingElseIsWrong) {
  const RankStatus done = status_in(7);
  RankStatus before = done;
  before.left = 4;
  const auto verdict_of = [&](const RankStatus& first) {
    return agree({first, from_row(to_row(before), before)}).verdict;
  };
  EXPECT_EQ(verdict_of(done), Agreed::Verdict::unfinished);
  RankStatus changed = done, lost = done;
  changed.is_void = true;
  lost.is_lost = true;
  EXPECT_EQ(verdict_of(changed), Agreed::Verdict::again);
  EXPECT_EQ(verdict_of(lost), Agreed::Verdict::dropped);
}

TEST(StatusRow, RefusesCountsThatAreNoWholeNumbers) {
  const RankStatus status = status_in(7);
  constexpr std::int64_t window = 0, first_unit = 15;
  for (const auto& [place, value] :
       {std::pair{window, std::nan("")}, {window, 0.5}, {window, 0x1p54}, {first_unit, 0x1p31}}) {
    at::Tensor row = to_row(status);
    row[place] = value;
    EXPECT_THAT(accrue::testing::error_of([&] { from_row(row, status); }, Error::Kind::runtime),
                HasSubstr("whole numbers where ranks count"))
        << place << ": " << value;
  }
}

TEST(StatusRow, RefusesRanksThatAreInDifferentWindows) {
  const RankStatus behind = status_in(7), ahead = status_in(8);
  const auto agree_by_rows = [&] {
    agree({from_row(to_row(behind), behind), from_row(to_row(ahead), behind)});
  };
  EXPECT_THAT(accrue::testing::error_of(agree_by_rows, Error::Kind::runtime),
              HasSubstr("window 7 on rank 0, window 8 on rank 1"));
}

}  // namespace
}  // namespace accrue::distributed
