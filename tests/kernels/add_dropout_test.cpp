#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "accrue/kernels/dropout.h"
#include "support/reference_mask.h"

namespace accrue::kernels {
namespace add_dropout_test {

constexpr std::int64_t rows = 2, length = 7, channels = 131, site = 2;
constexpr double probability = 0.3;

ForwardContext context_of(std::vector<std::int64_t> samples) {
  return {.training = true, .seed = 1337, .window = 3, .sample_ids = std::move(samples)};
}

struct Addends {
  at::Tensor x, y;
};

Addends addends(at::ScalarType x_dtype, at::ScalarType y_dtype) {
  at::manual_seed(5);
  const auto make = [](at::ScalarType dtype) {
    return at::randn({rows, length, channels}, at::kDouble).to(dtype).requires_grad_(true);
  };
  return {make(x_dtype), make(y_dtype)};
}

at::Tensor factors(const ForwardContext& context) {
  const accrue::testing::ReferenceMask mask(probability, context, site);
  std::vector<at::Tensor> parts;
  for (const std::int64_t sample : context.sample_ids)
    parts.push_back(mask.of_sample(sample, length, channels));
  return at::stack(parts);
}

/// The dtypes of x and y: those of a residual stream and its branch.
class AddDropout : public ::testing::TestWithParam<std::pair<at::ScalarType, at::ScalarType>> {
 protected:
  /// Two roundings of the sum's dtype, relative to the added values.
  static bool close(const at::Tensor& actual, const at::Tensor& expected, at::ScalarType dtype) {
    const double unit = dtype == at::kDouble ? 0x1p-52 : dtype == at::kFloat ? 0x1p-23 : 0x1p-7;
    return at::allclose(actual.to(at::kDouble), expected.to(at::kDouble), unit, 8 * unit);
  }
};

TEST_P(AddDropout, IsTheSumOfBothAndHasTheGradientsOfIt) {
  const auto [x_dtype, y_dtype] = GetParam();
  const Addends given = addends(x_dtype, y_dtype);
  const ForwardContext context = context_of({8, 9});
  const at::Tensor mask = factors(context).to(at::kDouble);
  const at::Tensor sum = add_dropout(given.x, given.y, probability, context, site);
  ASSERT_EQ(sum.scalar_type(), x_dtype);
  const at::Tensor dropped = given.y.to(at::kDouble) * mask;
  EXPECT_TRUE(close(sum, given.x.to(at::kDouble) + dropped, x_dtype));
  EXPECT_FALSE(close(sum, given.x.to(at::kDouble) + 1.2 * dropped, x_dtype)) << "the control";

  const at::Tensor grad = at::randn({rows, length, channels}, at::kDouble).to(x_dtype);
  sum.backward(grad);
  EXPECT_TRUE(at::equal(given.x.grad(), grad));
  ASSERT_EQ(given.y.grad().scalar_type(), y_dtype);
  EXPECT_TRUE(close(given.y.grad(), grad.to(at::kDouble) * mask, y_dtype));
}

TEST_P(AddDropout, IsThePlainSumWhereNothingIsDropped) {
  const auto [x_dtype, y_dtype] = GetParam();
  const Addends given = addends(x_dtype, y_dtype);
  ForwardContext context = context_of({8, 9});
  const at::Tensor expected = given.x + given.y.to(x_dtype);
  const at::Tensor sum = add_dropout(given.x, given.y, 0, context, site);
  EXPECT_TRUE(at::equal(sum, expected));
  sum.sum().backward();
  EXPECT_TRUE(at::equal(given.y.grad(), at::ones_like(given.y)));
  context.training = false;
  EXPECT_TRUE(at::equal(add_dropout(given.x, given.y, probability, context, site), expected));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AddDropout,
                         ::testing::Values(std::pair{at::kFloat, at::kFloat},
                                           std::pair{at::kDouble, at::kDouble},
                                           std::pair{at::kBFloat16, at::kBFloat16},
                                           std::pair{at::kFloat, at::kBFloat16}));

TEST(AddDropoutOfPackedRows, LeavesWhatNoSampleCoversAsItWas) {
  const Addends given = addends(at::kFloat, at::kBFloat16);
  ForwardContext packed = context_of({10, 11, 12});
  packed.spans = {{11, 0, 0, 4}, {10, 0, 5, 7}, {12, 1, 2, 7}};
  const at::Tensor sum = add_dropout(given.x, given.y, probability, packed, site);
  const at::Tensor dropped = dropout(given.y.to(at::kFloat), probability, packed, site);
  EXPECT_TRUE(at::equal(sum, given.x + dropped));
  EXPECT_TRUE(at::equal(sum[0][4], given.x[0][4]));
  EXPECT_FALSE(at::equal(sum[0][3], given.x[0][3]));
}

TEST(AddDropoutOf, AResultThatNobodyReadsComputesNothing) {
  const Addends given = addends(at::kFloat, at::kBFloat16);
  ForwardContext context = context_of({8, 9});
  const at::Tensor read = add_dropout(given.x, given.y, probability, context, site);
  read.sum().backward();
  const at::Tensor grad = given.y.grad().clone();
  given.y.mutable_grad().reset();
  context.result_unread = true;
  const at::Tensor unread = add_dropout(given.x, given.y, probability, context, site);
  EXPECT_EQ(unread.sizes(), read.sizes());
  EXPECT_EQ(unread.storage().nbytes(), sizeof(float));
  unread.sum().backward();
  EXPECT_TRUE(at::equal(given.y.grad(), grad));
}

TEST(AddDropoutOf, OtherSizesAndDtypesIsRefused) {
  const ForwardContext context = context_of({8, 9});
  const at::Tensor x = at::ones({2, 3, 4});
  EXPECT_THROW(add_dropout(x, at::ones({2, 3, 5}), 0, context, 0), Error);
  EXPECT_THROW(add_dropout(x, at::ones({2, 3, 4}, at::kDouble), 0, context, 0), Error);
  EXPECT_THROW(add_dropout(x.to(at::kBFloat16), x, 0, context, 0), Error);
  EXPECT_THROW(add_dropout(x, x, 1, context, 0), Error);
}

}  // namespace add_dropout_test
}  // namespace accrue::kernels
