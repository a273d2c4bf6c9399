#include "train/pass/head_sums.h"

#include <gmock/gmock.h>

namespace accrue::train {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::vector<models::LossHead> heads_of_test() {
  std::vector<models::LossHead> heads(3);
  heads[0].name = "tokens";
  heads[1].name = "boxes";
  heads[2].name = "off";
  heads[1].coefficient = 0.25;
  heads[2].coefficient = 0;
  return heads;
}

TEST(HeadSums, GiveEachLossItsOwnMean) {
  HeadSums sums;
  sums += {.sums = {6, 1, 0}, .weights = {4, 0, 3}};
  sums += {.sums = {4, 8, 0}, .weights = {1, 2, 3}};
  EXPECT_THAT(means_of(heads_of_test(), sums),
              UnorderedElementsAre(Pair("tokens", 2), Pair("boxes", 4.5)))
      << "without its coefficient; one that is off has none";
}

TEST(HeadSums, GiveNoMeanOfNothingOrOfASingleLoss) {
  EXPECT_THAT(means_of(heads_of_test(), {}), IsEmpty());
  EXPECT_THAT(means_of(heads_of_test(), {.sums = {0, 0, 0}, .weights = {0, 0, 0}}), IsEmpty());
  const std::vector<models::LossHead> one(1);
  EXPECT_THAT(means_of(one, {.sums = {3}, .weights = {1}}), IsEmpty());
}

}  // namespace
}  // namespace accrue::train
