#include "accrue/accum/loss_totals.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "accum/problem.h"

namespace accrue {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

Loss loss_of(double sum, double weight) {
  return {at::scalar_tensor(sum, at::TensorOptions().dtype(at::kDouble)).requires_grad_(true),
          weight};
}

TEST(LossTotals, ScaleEachLossToTheFirstOnesDenominator) {
  const LossTotals totals({12, 3, 24}, {1, 0.5, 2});
  EXPECT_EQ(totals.reference(), 0u);
  EXPECT_THAT(totals.factors(), ElementsAre(1, 2, 1));
  const Loss loss = totals.combine({loss_of(5, 4), loss_of(7, 1), loss_of(11, 8)});
  EXPECT_EQ(loss.sum.item<double>(), 5 + 2 * 7 + 11);
  EXPECT_EQ(loss.weight, 4);
}

TEST(LossTotals, GoByTheFirstLossThatHasWeight) {
  const LossTotals totals({0, 6, 0, 3});
  EXPECT_EQ(totals.reference(), 1u);
  EXPECT_THAT(totals.factors(), ElementsAre(0, 1, 0, 2));
  const Loss loss = totals.combine(
      {loss_of(std::nan(""), 0), loss_of(5, 2), loss_of(std::nan(""), 0), loss_of(7, 1)});
  EXPECT_EQ(loss.sum.item<double>(), 5 + 2 * 7);
  EXPECT_EQ(loss.weight, 2);
}

TEST(LossTotals, CountNothingWithoutAnyWeight) {
  const Loss loss = LossTotals({0, 0}).combine({loss_of(1, 0), loss_of(2, 0)});
  EXPECT_EQ(loss.sum.item<double>(), 0);
  EXPECT_FALSE(loss.sum.requires_grad());
  EXPECT_EQ(loss.weight, 0);
}

TEST(LossTotals, SayWhetherLeavingOutChangesTheFactors) {
  LossTotals totals({12, 4});
  EXPECT_FALSE(totals.quarantine({3, 1}));
  EXPECT_EQ(totals, LossTotals({9, 3}));
  EXPECT_TRUE(totals.quarantine({3, 0}));
  EXPECT_EQ(totals, LossTotals({6, 3}));
}

TEST(LossTotals, RefuseWhatIsNoWeight) {
  EXPECT_THAT(error_of([] { LossTotals({1, -1}); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([] { LossTotals({1, std::nan("")}); }), HasSubstr("nan"));
  EXPECT_THAT(error_of([] { LossTotals({1, 2}, {std::nan(""), 1}); }), HasSubstr("coefficients"));
  EXPECT_THAT(error_of([] { LossTotals({1, 2}, {1}); }), HasSubstr("2 totals and 1"));
  EXPECT_THAT(error_of([] { LossTotals(std::vector<double>{}); }), HasSubstr("0 totals"));
  EXPECT_THAT(error_of([] { LossTotals({1, 2}).combine({loss_of(1, 1)}); }), HasSubstr("2"));
}

}  // namespace
}  // namespace accrue
