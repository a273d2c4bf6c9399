#include "elementwise.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "accrue/core/error.h"
#include "support/tolerance.h"

namespace accrue::kernels::elementwise {
namespace {

using accrue::testing::close;

constexpr std::int64_t ignored = -100;

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
    // Rounding of the exponent, up to about 20 where the derivative still varies, comes on top.
    EXPECT_TRUE(close(actual, leaf.grad(), GetParam(), 20)) << size;
  }
}

TEST(Gelu, ComparatorSeesTheErfForm) {
  const at::Tensor pre = values(1000, at::kFloat, 1, 3);
  at::Tensor out = at::empty({1000}, pre.options());
  gelu(pre, out);
  EXPECT_FALSE(close(out, at::gelu(pre.to(at::kDouble), "none"), at::kFloat, 2));
}

TEST(Gelu, IsExactWhereItSaturates) {
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

struct Reference {
  double loss;
  at::Tensor grad;
};

/// torch's own label smoothing, and the z-loss written out.
Reference cross_entropy(const at::Tensor& logits, const std::vector<std::int64_t>& targets,
                        const rows::CrossEntropyTerms& terms = {}) {
  const at::Tensor leaf = logits.to(at::kDouble).detach().clone().requires_grad_(true);
  const at::Tensor labels = at::tensor(targets, at::kLong);
  const at::Tensor log_sums = leaf.logsumexp(-1) * labels.ne(ignored);
  const at::Tensor loss =
      at::cross_entropy_loss(leaf, labels, {}, at::Reduction::Sum, ignored, terms.label_smoothing) +
      terms.z_loss * log_sums.square().sum();
  loss.backward();
  return {loss.item<double>(), leaf.grad()};
}

CrossEntropyRows labels_of(const std::vector<std::int64_t>& targets,
                           const rows::CrossEntropyTerms& terms = {}) {
  return {.targets = targets.data(), .ignored = ignored, .terms = terms};
}

std::vector<std::int64_t> some_targets(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows; ++row)
    targets.push_back(row % 4 == 2 ? ignored : (row * 31 + classes - 1) % classes);
  return targets;
}

constexpr rows::CrossEntropyTerms all_terms[] = {{0, 0}, {0.1, 0}, {0, 1e-3}, {0.3, 0.02}};

TEST(CrossEntropyRows, MatchesATenInEveryPrecision) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (const std::int64_t classes : {1, 7, 65, 300, 5003})
      for (const rows::CrossEntropyTerms& terms : all_terms) {
        SCOPED_TRACE(c10::str(classes, " classes, ", terms.label_smoothing, ", ", terms.z_loss));
        const std::int64_t rows = 6;
        const auto targets = some_targets(rows, classes);
        const at::Tensor logits = values(rows * classes, dtype, 7, 4).view({rows, classes});
        const Reference expected = cross_entropy(logits, targets, terms);
        const double bound = accrue::testing::tolerance(dtype).bound(classes) * (expected.loss + 1);
        at::Tensor read = logits.clone();
        EXPECT_NEAR(cross_entropy_rows(read, labels_of(targets, terms)), expected.loss, bound);
        at::Tensor in_place = logits.clone();
        EXPECT_NEAR(cross_entropy_rows(in_place, labels_of(targets, terms), &in_place),
                    expected.loss, bound);
        EXPECT_TRUE(close(in_place, expected.grad, dtype, classes));
        at::Tensor half = at::empty(logits.sizes(), at::kBFloat16);
        cross_entropy_rows(read, labels_of(targets, terms), &half);
        EXPECT_TRUE(close(half, expected.grad, at::kBFloat16, 1));
      }
}

TEST(CrossEntropyRows, WritesBf16IntoTheMemoryOfTheLogits) {
  for (const std::int64_t classes : {1, 7, 65, 5003}) {
    const auto targets = some_targets(6, classes);
    at::Tensor logits = values(6 * classes, at::kFloat, 7, 4).view({6, classes});
    at::Tensor apart = at::empty(logits.sizes(), at::kBFloat16), copy = logits.clone();
    cross_entropy_rows(copy, labels_of(targets), &apart);
    at::Tensor within = logits.view(at::kBFloat16).narrow(1, 0, classes);
    cross_entropy_rows(logits, labels_of(targets), &within);
    EXPECT_TRUE(at::equal(within, apart)) << classes;
  }
}

TEST(CrossEntropyRows, ScalesTheGradientAndNotTheLoss) {
  const auto targets = some_targets(6, 65);
  at::Tensor once = values(6 * 65, at::kFloat, 8).view({6, 65}), eight = once.clone();
  CrossEntropyRows labels = labels_of(targets, {0.1, 1e-3});
  const double loss = cross_entropy_rows(once, labels, &once);
  labels.gradient_scale = 8;
  EXPECT_EQ(cross_entropy_rows(eight, labels, &eight), loss);
  EXPECT_TRUE(at::equal(eight, once * 8));
}

TEST(CrossEntropyRows, ComparatorSeesAShiftedTargetAndAMissingTerm) {
  const auto targets = some_targets(6, 65);
  auto shifted = targets;
  shifted[0] = (shifted[0] + 1) % 65;
  const at::Tensor logits = values(6 * 65, at::kFloat, 8).view({6, 65});
  const Reference expected = cross_entropy(logits, targets, {0.1, 1e-3});
  for (const CrossEntropyRows& wrong : {labels_of(shifted, {0.1, 1e-3}), labels_of(targets, {0.1}),
                                        labels_of(targets, {0, 1e-3})}) {
    at::Tensor grad = logits.clone();
    EXPECT_GT(std::abs(cross_entropy_rows(grad, wrong, &grad) - expected.loss), 0.01);
    EXPECT_FALSE(close(grad, expected.grad, at::kFloat, 65));
  }
}

TEST(CrossEntropyRows, SurvivesLargeLogits) {
  const std::vector<std::int64_t> targets{0, 1};
  at::Tensor logits = at::tensor({1e30, -1e30, 5e4, 1e4, 1e4, -1e4}, at::kFloat).view({2, 3});
  const Reference expected = cross_entropy(logits, targets);
  const double loss = cross_entropy_rows(logits, labels_of(targets), &logits);
  EXPECT_NEAR(loss, expected.loss, 1e-6);
  EXPECT_TRUE(close(logits, expected.grad, at::kFloat, 3));
}

TEST(CrossEntropyRows, ShowsNaNInTheLoss) {
  for (const std::int64_t place : {0, 5, 17}) {
    at::Tensor logits = at::zeros({1, 18});
    logits[0][place] = std::numeric_limits<double>::quiet_NaN();
    const std::vector<std::int64_t> targets{3};
    EXPECT_TRUE(std::isnan(cross_entropy_rows(logits, labels_of(targets))));
    EXPECT_TRUE(std::isnan(cross_entropy_rows(logits, labels_of(targets), &logits)));
  }
}

TEST(CrossEntropyRows, OfIgnoredRowsIsZero) {
  const std::vector<std::int64_t> targets{ignored, ignored};
  at::Tensor logits = at::ones({2, 9});
  EXPECT_EQ(cross_entropy_rows(logits, labels_of(targets), &logits), 0);
  EXPECT_TRUE(at::equal(logits, at::zeros({2, 9})));
}

}  // namespace
}  // namespace accrue::kernels::elementwise
