#include "kernels/rows/elementwise.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "accrue/core/error.h"
#include "support/kernels.h"
#include "support/tolerance.h"

namespace accrue::kernels::elementwise {
namespace elementwise_test {

using accrue::testing::close;

/// Normal values rounded to `dtype`, not aligned to a vector.
at::Tensor values(std::int64_t size, at::ScalarType dtype, std::uint64_t seed, double scale = 1) {
  at::manual_seed(seed);
  const at::Tensor all = (at::randn({size + 1}, at::kDouble) * scale).to(dtype);
  return all.narrow(0, 1, size);
}

class OfDtype : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(All, OfDtype, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(OfDtype, GeluIsTheTanhForm) {
  for (const std::int64_t size : {1, 7, 65, 1000, 40000}) {
    const at::Tensor pre = values(size, GetParam(), 1, 3);
    at::Tensor out = at::empty({size}, pre.options());
    gelu(pre, out);
    const at::Tensor exact = at::gelu(pre.to(at::kDouble), "tanh");
    EXPECT_TRUE(close(out, exact, GetParam(), 2)) << size;
  }
}

TEST_P(OfDtype, GeluGradientMatchesAutograd) {
  for (const std::int64_t size : {1, 7, 65, 1000, 40000}) {
    const at::Tensor pre = values(size, GetParam(), 2, 3), grad = values(size, GetParam(), 3);
    at::Tensor actual = grad.clone();
    gelu_backward(actual, pre, actual);
    const at::Tensor leaf = pre.to(at::kDouble).detach().clone().requires_grad_(true);
    at::gelu(leaf, "tanh").backward(grad.to(at::kDouble));
    // Rounding of the exponent adds up to about 20 while the derivative still varies.
    EXPECT_TRUE(close(actual, leaf.grad(), GetParam(), 20)) << size;
  }
}

TEST_P(OfDtype, GeluAndItsGradientInOnePassHaveTheBitsOfTwo) {
  for (const std::int64_t size : {1, 7, 65, 1000, 40000}) {
    const at::Tensor pre = values(size, GetParam(), 2, 3), grad = values(size, GetParam(), 3);
    at::Tensor out = at::empty({size}, pre.options()), grad_pre = at::empty({size}, pre.options());
    gelu(pre, out);
    gelu_backward(grad, pre, grad_pre);
    at::Tensor in_place = pre.clone(), grad_in_place = grad.clone();
    gelu_with_backward(grad_in_place, in_place, in_place, grad_in_place);
    EXPECT_TRUE(at::equal(in_place, out)) << size;
    EXPECT_TRUE(at::equal(grad_in_place, grad_pre)) << size;
    EXPECT_FALSE(at::equal(in_place, pre)) << size;
  }
}

TEST(Gelu, ComparatorSeesTheErfForm) {
  const at::Tensor pre = values(1000, at::kFloat, 1, 3);
  at::Tensor out = at::empty({1000}, pre.options());
  gelu(pre, out);
  EXPECT_FALSE(close(out, at::gelu(pre.to(at::kDouble), "none"), at::kFloat, 2));
}

TEST(Gelu, IsExactWhereItSaturates) {
  if (testing::by_aten())
    return testing::not_possible_here(
        "ATen's derivative is NaN where the cube of its input is infinite");
  const at::Tensor pre = at::tensor({-1e30, -3e38, -50.0, -0.0, 50.0, 3e38}, at::kFloat);
  at::Tensor out = at::empty_like(pre), grad = at::ones_like(pre);
  gelu(pre, out);
  gelu_backward(grad, pre, grad);
  EXPECT_TRUE(at::equal(out, at::tensor({0.0, 0.0, 0.0, 0.0, 50.0, 3e38}, at::kFloat))) << out;
  EXPECT_TRUE(at::equal(grad, at::tensor({0.0, 0.0, 0.0, 0.5, 1.0, 1.0}, at::kFloat))) << grad;
}

TEST(Gelu, KeepsNaN) {
  const at::Tensor pre = at::full({3}, std::numeric_limits<double>::quiet_NaN(), at::kBFloat16);
  at::Tensor out = at::empty_like(pre), grad = at::ones_like(pre);
  gelu(pre, out);
  gelu_backward(grad, pre, grad);
  EXPECT_TRUE(out.isnan().all().item<bool>());
  EXPECT_TRUE(grad.isnan().all().item<bool>());
}

TEST(Gelu, RoundsToBFloat16LikeATen) {
  const at::Tensor pre = values(5000, at::kBFloat16, 4, 3);
  at::Tensor rounded = at::empty({5000}, pre.options());
  at::Tensor exact = at::empty({5000}, at::kFloat);
  gelu(pre, rounded);
  gelu(pre.to(at::kFloat), exact);
  EXPECT_TRUE(at::equal(rounded, exact.to(at::kBFloat16)));
}

TEST(Gelu, RefusesAnotherSize) {
  at::Tensor out = at::empty({3});
  EXPECT_THROW(gelu(at::empty({4}), out), Error);
}

TEST_P(OfDtype, ColumnSumWritesOrAdds) {
  const at::ScalarType sum_dtype = GetParam() == at::kDouble ? at::kDouble : at::kFloat;
  for (const std::int64_t rows : {1, 3, 4, 7, 130})
    for (const std::int64_t columns : {1, 7, 64, 600, 1030}) {
      const at::Tensor g = values(rows * columns, GetParam(), 5).view({rows, columns});
      const at::Tensor expected = g.to(at::kDouble).sum(0);
      at::Tensor sums = at::full({columns}, 1000, sum_dtype);
      column_sum(g, sums, false);
      EXPECT_TRUE(close(sums, expected, sum_dtype, rows)) << rows << " x " << columns;
      column_sum(g, sums, true);
      EXPECT_TRUE(close(sums, 2 * expected, sum_dtype, rows)) << rows << " x " << columns;
    }
}

TEST(ColumnSum, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor g = values(500 * 700, at::kFloat, 6).view({500, 700});
  at::Tensor alone = at::empty({700}), together = at::empty({700});
  const int threads = at::get_num_threads();
  column_sum(g, together, false);
  at::set_num_threads(1);
  column_sum(g, alone, false);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

}  // namespace elementwise_test
}  // namespace accrue::kernels::elementwise
