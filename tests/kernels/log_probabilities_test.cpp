#include "accrue/kernels/log_probabilities.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "kernels/gradients.h"
#include "kernels/head_cases.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace log_probabilities_test {

using testing::all_sizes;
using testing::chunk_rows;
using testing::close;
using testing::error_of;
using ::testing::HasSubstr;
using testing::in_double;
using testing::leaf;
using testing::open_slot;
using testing::Sizes;

constexpr double soft_cap = 3;

at::Tensor labels_of(const Sizes& sizes, bool some_ignored) {
  at::manual_seed(3);
  at::Tensor labels = at::randint(sizes.classes, {sizes.batch, sizes.length}, at::kLong);
  if (some_ignored && labels.numel() > 1)
    labels.view(-1).slice(0, 0, labels.numel(), 3).fill_(ignored_label);
  return labels;
}

at::Tensor reference(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                     double cap) {
  at::Tensor logits = at::matmul(hidden, weight.t());
  if (cap != 0) logits = cap * at::tanh(logits / cap);
  const at::Tensor ignored = labels.eq(ignored_label);
  return at::log_softmax(logits, -1)
      .gather(-1, labels.masked_fill(ignored, 0).unsqueeze(-1))
      .squeeze(-1)
      .masked_fill(ignored, 0);
}

/// Factors of both signs, as losses of pairs have.
at::Tensor upstream_of(const at::Tensor& labels) {
  at::manual_seed(4);
  return at::randn(labels.sizes(), at::kDouble);
}

class LogProbabilities : public testing::HeadTest {
 protected:
  void expect_reference(const Sizes& sizes, bool some_ignored, double cap) {
    SCOPED_TRACE(::testing::Message() << sizes.classes << " classes, ignored: " << some_ignored);
    const at::Tensor hidden = leaf({sizes.batch, sizes.length, sizes.channels}, compute(), 1),
                     weight = leaf({sizes.classes, sizes.channels}, master(), 2, 0.3);
    const at::Tensor labels = labels_of(sizes, some_ignored), upstream = upstream_of(labels);
    const at::Tensor rhidden = in_double(hidden), rweight = in_double(weight);
    const at::Tensor found = linear_log_probabilities(hidden, weight, labels, copy_,
                                                      {.soft_cap = cap, .chunk_rows = chunk_rows});
    const at::Tensor expected = reference(rhidden, rweight, labels, cap);
    EXPECT_EQ(found.scalar_type(), at::kDouble);
    EXPECT_TRUE(close(found, expected, compute(), sizes.channels));
    found.backward(upstream);
    expected.backward(upstream);
    const std::int64_t roundings = compute() == at::kBFloat16 ? 2 : 1;
    const std::int64_t terms = 4 * sizes.channels + roundings * labels.numel();
    EXPECT_TRUE(close(hidden.grad(), rhidden.grad(), compute(), terms));
    EXPECT_TRUE(close(weight.grad(), rweight.grad(), compute(), terms));
    EXPECT_FALSE(close(weight.grad(), rweight.grad().abs(), compute(), terms));
    EXPECT_EQ(hidden.grad().scalar_type(), compute());
    EXPECT_EQ(weight.grad().scalar_type(), master());

    const at::NoGradGuard no_grad;
    EXPECT_TRUE(close(linear_log_probabilities(hidden, weight, labels, copy_, {.soft_cap = cap}),
                      found, master(), sizes.channels));
  }
};
INSTANTIATE_TEST_SUITE_P(All, LogProbabilities, ::testing::ValuesIn(testing::all_cases),
                         testing::case_name);

TEST_P(LogProbabilities, MatchesATen) {
  for (const Sizes& sizes : all_sizes)
    for (const bool some_ignored : {false, true}) expect_reference(sizes, some_ignored, 0);
}

TEST_P(LogProbabilities, CapsLogits) { expect_reference(all_sizes[0], true, soft_cap); }

TEST_P(LogProbabilities, AddsToAnOpenSlotInBackward) {
  const Sizes sizes = all_sizes[2];
  const at::Tensor hidden = leaf({sizes.batch, sizes.length, sizes.channels}, compute(), 1),
                   weight = leaf({sizes.classes, sizes.channels}, master(), 2, 0.3),
                   plain = weight.detach().clone().requires_grad_(true);
  const at::Tensor labels = labels_of(sizes, true), upstream = upstream_of(labels);
  linear_log_probabilities(hidden, plain, labels, copy_).backward(upstream);

  const auto slot = open_slot(weight);
  const at::Tensor first = linear_log_probabilities(hidden, weight, labels, copy_);
  const at::Tensor second = linear_log_probabilities(hidden, weight, labels, copy_);
  first.backward(upstream);
  EXPECT_TRUE(close(slot->main, plain.grad(), compute(), labels.numel()));
  second.backward(upstream);
  EXPECT_TRUE(close(slot->main, plain.grad() * 2, compute(), labels.numel()));
  EXPECT_FALSE(weight.grad().defined());
}

TEST(LogProbabilitiesOfRows, SumToMinusTheCrossEntropy) {
  PreparedWeight prepared;
  const at::Tensor hidden = leaf({6, 5}, at::kFloat, 1), weight = leaf({9, 5}, at::kFloat, 2);
  const at::Tensor labels =
      at::tensor(std::vector<std::int64_t>{0, 8, ignored_label, 3, 3, ignored_label});
  const Loss loss = linear_cross_entropy(hidden, weight, labels, prepared);
  EXPECT_TRUE(close(-linear_log_probabilities(hidden, weight, labels, prepared).sum(), loss.sum,
                    at::kFloat, 6));
}

TEST(LogProbabilitiesOfRows, AreZeroWhereNoLabelCounts) {
  PreparedWeight prepared;
  const at::Tensor hidden = leaf({4, 5}, at::kFloat, 1), weight = leaf({9, 5}, at::kFloat, 2);
  const at::Tensor found =
      linear_log_probabilities(hidden, weight, at::full({4}, ignored_label, at::kLong), prepared);
  EXPECT_EQ(found.abs().max().item<double>(), 0);
  found.sum().backward();
  EXPECT_EQ(hidden.grad().abs().max().item<double>(), 0);
  EXPECT_EQ(weight.grad().abs().max().item<double>(), 0);
}

TEST(LogProbabilitiesOfRows, AreNotFiniteWhereLogitsAreNot) {
  PreparedWeight prepared;
  const at::Tensor hidden = leaf({4, 5}, at::kFloat, 1), weight = leaf({9, 5}, at::kFloat, 2);
  {
    const at::NoGradGuard no_grad;
    hidden[1].fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const at::Tensor found = linear_log_probabilities(hidden, weight, at::zeros({4}, at::kLong),
                                                    prepared, {.chunk_rows = 2});
  EXPECT_FALSE(std::isfinite(found.sum().item<double>()));
}

TEST(LogProbabilitiesOfRows, RefuseWhatDoesNotFit) {
  PreparedWeight prepared;
  const at::Tensor hidden = leaf({4, 5}, at::kFloat, 1), weight = leaf({9, 5}, at::kFloat, 2);
  EXPECT_THAT(error_of([&] {
                linear_log_probabilities(hidden, weight, at::full({4}, 9, at::kLong), prepared);
              }),
              HasSubstr("9 in row 0"));
  EXPECT_THAT(error_of([&] {
                linear_log_probabilities(hidden, weight, at::zeros({3}, at::kLong), prepared);
              }),
              HasSubstr("one target for each row"));
}

}  // namespace log_probabilities_test
}  // namespace accrue::kernels
