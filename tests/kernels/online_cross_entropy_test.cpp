#include "kernels/cross_entropy/online_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/tolerance.h"

namespace accrue::kernels {
namespace online_cross_entropy_test {

using testing::close;

constexpr std::int64_t ignored = -100;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Terms {
  double label_smoothing = 0, z_loss = 0;
};
constexpr Terms all_terms[] = {{0, 0}, {0.1, 0}, {0, 1e-3}, {0.3, 0.02}};

struct Reference {
  double loss;
  at::Tensor grad;
};

/// torch's own label smoothing, and the z-loss written out.
Reference reference(const at::Tensor& logits, const std::vector<std::int64_t>& targets,
                    const Terms& terms = {}) {
  const at::Tensor leaf = logits.to(at::kDouble).detach().clone().requires_grad_(true);
  const at::Tensor labels = at::tensor(targets, at::kLong);
  const at::Tensor log_sums = leaf.logsumexp(-1) * labels.ne(ignored);
  const at::Tensor loss =
      at::cross_entropy_loss(leaf, labels, {}, at::Reduction::Sum, ignored, terms.label_smoothing) +
      terms.z_loss * log_sums.square().sum();
  loss.backward();
  return {loss.item<double>(), leaf.grad()};
}

CrossEntropyRows labels_of(const std::vector<std::int64_t>& targets, const Terms& terms = {}) {
  return {.targets = targets.data(),
          .ignored = ignored,
          .label_smoothing = terms.label_smoothing,
          .z_loss = terms.z_loss};
}

std::vector<std::int64_t> some_targets(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows; ++row)
    targets.push_back(row % 4 == 2 ? ignored : (row * 31 + classes - 1) % classes);
  return targets;
}

/// Normal logits whose rows are not aligned to a vector.
at::Tensor some_logits(std::int64_t rows, std::int64_t classes, at::ScalarType dtype) {
  at::manual_seed(7);
  const at::Tensor all = (at::randn({rows * classes + 1}, at::kDouble) * 4).to(dtype);
  return all.narrow(0, 1, rows * classes).view({rows, classes});
}

/// `exponentials` may be null, the logits (which are then one block) or separate; they become the
/// gradient.
double run(at::Tensor logits, const CrossEntropyRows& labels, std::int64_t block,
           at::Tensor* exponentials) {
  const std::int64_t classes = logits.size(1);
  OnlineCrossEntropy loss(labels, logits.size(0), classes, block);
  const auto for_each_block = [&](const auto& body) {
    for (std::int64_t first = 0; first < classes; first += block) {
      const std::int64_t size = std::min(block, classes - first);
      at::Tensor part = exponentials ? exponentials->narrow(1, first, size) : at::Tensor();
      body(first, logits.narrow(1, first, size), exponentials ? &part : nullptr);
    }
  };
  for_each_block(
      [&](std::int64_t first, at::Tensor part, at::Tensor* to) { loss.add(first, part, to); });
  const double sum = loss.finish();
  if (exponentials)
    for_each_block([&](std::int64_t first, const at::Tensor&, at::Tensor* part) {
      loss.to_gradient(first, *part);
    });
  return sum;
}

double in_place(at::Tensor& logits, const CrossEntropyRows& labels) {
  return run(logits, labels, logits.size(1), &logits);
}

TEST(OnlineCrossEntropy, MatchesATenInEveryPrecisionAndByAnyBlocks) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (const std::int64_t classes : {1, 7, 65, 300, 5003})
      for (const Terms& terms : all_terms) {
        const std::int64_t rows = 6;
        const auto targets = some_targets(rows, classes);
        const at::Tensor logits = some_logits(rows, classes, dtype);
        const Reference expected = reference(logits, targets, terms);
        const double bound = testing::tolerance(dtype).bound(classes) * (expected.loss + 1);
        for (const std::int64_t block : {classes, classes / 3 + 1, std::int64_t{64}}) {
          SCOPED_TRACE(c10::str(classes, " classes by ", block, ", ", terms.label_smoothing, ", ",
                                terms.z_loss));
          EXPECT_NEAR(run(logits, labels_of(targets, terms), block, nullptr), expected.loss, bound);
          at::Tensor exact = logits.clone();
          EXPECT_NEAR(run(exact, labels_of(targets, terms), block, &exact), expected.loss, bound);
          EXPECT_TRUE(close(exact, expected.grad, dtype, classes));
          at::Tensor half = at::empty(logits.sizes(), at::kBFloat16);
          EXPECT_NEAR(run(logits, labels_of(targets, terms), block, &half), expected.loss, bound);
          // As exponentials and as gradients: two roundings.
          EXPECT_TRUE(close(half, expected.grad, at::kBFloat16, 2));
        }
      }
}

/// Relative to each element, so that small probabilities count: an outdated running maximum of the
/// logits would make them wrong.
TEST(OnlineCrossEntropy, KeepsEveryProbabilityWhereTheLargestLogitComesLastOrFirst) {
  const std::int64_t classes = 60;
  for (const double slope : {1.0, -1.0}) {
    const at::Tensor logits = (at::arange(classes) * slope).to(at::kFloat).view({1, classes});
    const std::vector<std::int64_t> targets{30};
    const Reference expected = reference(logits, targets);
    for (const at::ScalarType stored : {at::kFloat, at::kBFloat16}) {
      at::Tensor grad = at::empty(logits.sizes(), stored);
      EXPECT_NEAR(run(logits, labels_of(targets), 7, &grad), expected.loss, 1e-5);
      const at::Tensor ratio = grad.to(at::kDouble) / expected.grad;
      EXPECT_TRUE(close(ratio, at::ones_like(ratio), stored, 2));
    }
  }
}

TEST(OnlineCrossEntropy, TakesABlockOfMinusInfinity) {
  at::Tensor logits = at::zeros({1, 12});
  logits.slice(1, 0, 4).fill_(-infinity);
  logits.slice(1, 8, 12).fill_(-infinity);
  at::Tensor grad = at::empty_like(logits);
  const std::vector<std::int64_t> targets{5};
  EXPECT_NEAR(run(logits, labels_of(targets), 4, &grad), std::log(4), 1e-6);
  EXPECT_TRUE(close(grad, reference(logits, targets).grad, at::kFloat, 4));
  logits.fill_(-infinity);
  EXPECT_TRUE(std::isnan(run(logits, labels_of(targets), 4, &grad)));
}

TEST(OnlineCrossEntropy, ScalesTheGradientAndNotTheLoss) {
  const auto targets = some_targets(6, 65);
  at::Tensor once = some_logits(6, 65, at::kFloat), eight = once.clone();
  CrossEntropyRows labels = labels_of(targets, {0.1, 1e-3});
  const double loss = in_place(once, labels);
  labels.gradient_scale = 8;
  EXPECT_EQ(in_place(eight, labels), loss);
  EXPECT_TRUE(at::equal(eight, once * 8));
}

TEST(OnlineCrossEntropy, ComparatorSeesAShiftedTargetAndAMissingTerm) {
  const auto targets = some_targets(6, 65);
  auto shifted = targets;
  shifted[0] = (shifted[0] + 1) % 65;
  const at::Tensor logits = some_logits(6, 65, at::kFloat);
  const Reference expected = reference(logits, targets, {0.1, 1e-3});
  for (const CrossEntropyRows& wrong : {labels_of(shifted, {0.1, 1e-3}), labels_of(targets, {0.1}),
                                        labels_of(targets, {0, 1e-3})}) {
    at::Tensor grad = logits.clone();
    EXPECT_GT(std::abs(in_place(grad, wrong) - expected.loss), 0.01);
    EXPECT_FALSE(close(grad, expected.grad, at::kFloat, 65));
  }
}

TEST(OnlineCrossEntropy, SurvivesLargeLogits) {
  const std::vector<std::int64_t> targets{0, 1};
  at::Tensor logits = at::tensor({1e30, -1e30, 5e4, 1e4, 1e4, -1e4}, at::kFloat).view({2, 3});
  const Reference expected = reference(logits, targets);
  for (const std::int64_t block : {1, 3}) {
    at::Tensor grad = at::empty_like(logits);
    EXPECT_NEAR(run(logits, labels_of(targets), block, &grad), expected.loss, 1e-6);
    EXPECT_TRUE(close(grad, expected.grad, at::kFloat, 3));
  }
}

TEST(OnlineCrossEntropy, ShowsNaNInTheLoss) {
  for (const std::int64_t place : {0, 5, 17})
    for (const std::int64_t block : {6, 18}) {
      at::Tensor logits = at::zeros({1, 18});
      logits[0][place] = std::numeric_limits<double>::quiet_NaN();
      at::Tensor grad = at::empty_like(logits);
      const std::vector<std::int64_t> targets{3};
      EXPECT_TRUE(std::isnan(run(logits, labels_of(targets), block, nullptr)));
      EXPECT_TRUE(std::isnan(run(logits, labels_of(targets), block, &grad)));
    }
}

TEST(OnlineCrossEntropy, OfIgnoredAndWeightlessRowsIsZero) {
  const std::vector<std::int64_t> targets{ignored, 4};
  const std::vector<float> weights{1, 0};
  CrossEntropyRows labels = labels_of(targets);
  labels.row_weights = weights.data();
  at::Tensor logits = at::full({2, 9}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(in_place(logits, labels), 0);
  EXPECT_TRUE(at::equal(logits, at::zeros({2, 9})));
}

TEST(OnlineCrossEntropy, HasTheSameBitsForAnyNumberOfThreads) {
  const auto targets = some_targets(40, 5003);
  at::Tensor together = some_logits(40, 5003, at::kFloat), alone = together.clone();
  const int threads = at::get_num_threads();
  const double sum = in_place(together, labels_of(targets, {0.1, 1e-3}));
  at::set_num_threads(1);
  EXPECT_EQ(in_place(alone, labels_of(targets, {0.1, 1e-3})), sum);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

}  // namespace online_cross_entropy_test
}  // namespace accrue::kernels
