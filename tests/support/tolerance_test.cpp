// What the comparison of all other tests accepts, and what it refuses.
#include "support/tolerance.h"

#include <ATen/ATen.h>

#include <limits>

namespace accrue::testing {
namespace {

at::Tensor reference() {
  at::manual_seed(1);
  return at::randn({40, 30}, at::kDouble);
}

TEST(Close, TakesWhatIsRounded) {
  const at::Tensor expected = reference();
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16})
    EXPECT_TRUE(close(expected.to(dtype), expected, dtype, 1)) << dtype;
  EXPECT_TRUE(close(at::zeros({3}), at::zeros({3}), at::kFloat, 1));
  EXPECT_TRUE(close(at::empty({0}), at::empty({0}), at::kFloat, 1));
}

/// The tolerance of bf16 for sums of 64 terms is 6% of the largest element.
TEST(Close, RefusesAWrongFactorThatTheToleranceWouldCover) {
  const at::Tensor expected = reference();
  for (const double factor : {0.97, 1.03}) {
    const at::Tensor wrong = (factor * expected).to(at::kBFloat16);
    EXPECT_LT(relative_error(wrong, expected), tolerance(at::kBFloat16).bound(64));
    EXPECT_FALSE(close(wrong, expected, at::kBFloat16, 64)) << factor;
  }
}

TEST(Close, RefusesOneWrongElement) {
  const at::Tensor expected = reference();
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    at::Tensor wrong = expected.clone();
    wrong[3][5] += 1.01 * tolerance(dtype).bound(4) * expected.abs().max();
    EXPECT_FALSE(close(wrong, expected, dtype, 4)) << dtype;
  }
}

TEST(Close, RefusesOtherShapesZerosAndWhatIsNotFinite) {
  const at::Tensor expected = reference();
  EXPECT_FALSE(close(expected.t(), expected, at::kBFloat16, 1'000'000));
  EXPECT_FALSE(close(at::zeros_like(expected), expected, at::kBFloat16, 1'000'000));
  EXPECT_FALSE(close(expected, at::zeros_like(expected), at::kFloat, 1));
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    at::Tensor wrong = expected.clone();
    wrong[0][0] = bad;
    EXPECT_FALSE(close(wrong, expected, at::kBFloat16, 1'000'000)) << bad;
  }
}

}  // namespace
}  // namespace accrue::testing
