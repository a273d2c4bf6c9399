#include "accrue/kernels/cross_entropy.h"

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
namespace cross_entropy_test {

using testing::all_sizes;
using testing::chunk_rows;
using testing::close;
using testing::error_of;
using ::testing::HasSubstr;
using testing::in_double;
using testing::leaf;
using testing::open_slot;
using testing::Sizes;

at::Tensor targets_of(at::IntArrayRef sizes, std::int64_t classes, std::uint64_t seed) {
  at::manual_seed(seed);
  at::Tensor targets = at::randint(classes, sizes, at::kLong);
  targets.view(-1).slice(0, 0, targets.numel(), 5).fill_(ignored_label);
  return targets;
}

class CrossEntropy : public testing::HeadTest {
 protected:
  static at::Tensor reference_sum(const at::Tensor& hidden, const at::Tensor& weight,
                                  const at::Tensor& targets) {
    return at::cross_entropy_loss(at::matmul(hidden.reshape({-1, weight.size(1)}), weight.t()),
                                  targets.reshape({-1}), {}, at::Reduction::Sum, ignored_label);
  }
  /// The terms of gradients: in bf16 the logits' is rounded twice, as an exponential and as itself.
  std::int64_t terms_of(const Sizes& sizes) const {
    const std::int64_t roundings = compute() == at::kBFloat16 ? 2 : 1;
    return 4 * sizes.channels + roundings * sizes.batch * sizes.length;
  }
};
INSTANTIATE_TEST_SUITE_P(All, CrossEntropy, ::testing::ValuesIn(testing::all_cases),
                         testing::case_name);

TEST_P(CrossEntropy, MatchesATen) {
  for (const Sizes& sizes : all_sizes) {
    SCOPED_TRACE(sizes.classes);
    const at::Tensor hidden = leaf({sizes.batch, sizes.length, sizes.channels}, compute(), 1),
                     weight = leaf({sizes.classes, sizes.channels}, master(), 2, 0.3);
    at::Tensor targets = targets_of({sizes.batch, sizes.length}, sizes.classes, 3);
    if (targets.numel() == 1) targets.fill_(1);
    const at::Tensor rhidden = in_double(hidden), rweight = in_double(weight);
    const Loss loss =
        linear_cross_entropy(hidden, weight, targets, copy_, {.chunk_rows = chunk_rows});
    const at::Tensor expected = reference_sum(rhidden, rweight, targets);
    EXPECT_EQ(loss.weight, (targets != ignored_label).sum().item<double>());
    EXPECT_EQ(loss.sum.dim(), 0);
    EXPECT_EQ(loss.sum.scalar_type(), master());
    EXPECT_TRUE(close(loss.sum, expected, compute(), 4));
    loss.sum.backward();
    expected.backward();
    const std::int64_t terms = terms_of(sizes);
    EXPECT_TRUE(close(hidden.grad(), rhidden.grad(), compute(), terms));
    EXPECT_TRUE(close(weight.grad(), rweight.grad(), compute(), terms));
    EXPECT_FALSE(close(weight.grad(), rweight.grad() / loss.weight * 2, compute(), terms));
    EXPECT_EQ(hidden.grad().scalar_type(), compute());
    EXPECT_EQ(weight.grad().scalar_type(), master());

    const at::NoGradGuard no_grad;
    EXPECT_TRUE(
        close(linear_cross_entropy(hidden, weight, targets, copy_).sum, loss.sum, master(), 4));
  }
}

TEST_P(CrossEntropy, AddsUpInASlotWithoutATemporary) {
  const std::int64_t classes = 24001, channels = 8, rows = 150;
  const at::Tensor hidden = leaf({rows, channels}, compute(), 1),
                   weight = leaf({classes, channels}, master(), 2, 0.3),
                   plain = weight.detach().clone().requires_grad_(true);
  const at::Tensor targets = targets_of({rows}, classes, 3);
  linear_cross_entropy(hidden, plain, targets, copy_).sum.backward();
  const at::Tensor expected_hidden = hidden.grad().clone();
  hidden.mutable_grad().reset();

  const auto slot = open_slot(weight);
  for (const std::int64_t begin : {0, 40})
    linear_cross_entropy(hidden.narrow(0, begin, begin == 0 ? 40 : rows - 40), weight,
                         targets.narrow(0, begin, begin == 0 ? 40 : rows - 40), copy_)
        .sum.backward();
  EXPECT_TRUE(close(slot->main, plain.grad(), compute(), rows));
  EXPECT_TRUE(close(hidden.grad(), expected_hidden, compute(), rows));
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_FALSE(slot->fresh);
  EXPECT_GE(slot->contributions, 2);
}

TEST_P(CrossEntropy, WantsNoMoreThanIsAsked) {
  const at::Tensor hidden = leaf({6, 4}, compute(), 1), weight = leaf({5, 4}, master(), 2);
  const at::Tensor targets = targets_of({6}, 5, 3);
  const auto slot = open_slot(weight);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(linear_cross_entropy(hidden, weight, targets, copy_).sum.requires_grad());
  }
  const at::Tensor frozen = weight.detach();
  linear_cross_entropy(hidden, frozen, targets, copy_).sum.backward();
  EXPECT_TRUE(hidden.grad().defined());
  EXPECT_EQ(slot->contributions, 0);
  linear_cross_entropy(hidden.detach(), weight, targets, copy_).sum.backward();
  EXPECT_EQ(slot->contributions, 1);
}

TEST_P(CrossEntropy, IgnoredAndEmptyRowsGiveZero) {
  for (const std::int64_t rows : {0, 4}) {
    const at::Tensor hidden = leaf({rows, 4}, compute(), 1), weight = leaf({5, 4}, master(), 2);
    const Loss loss =
        linear_cross_entropy(hidden, weight, at::full({rows}, ignored_label, at::kLong), copy_);
    EXPECT_EQ(loss.weight, 0);
    EXPECT_EQ(loss.sum.item<double>(), 0);
    loss.sum.backward();
    EXPECT_TRUE((weight.grad() == 0).all().item<bool>());
    EXPECT_TRUE((hidden.grad() == 0).all().item<bool>());
  }
}

TEST_P(CrossEntropy, AddsNothingFromAChunkThatIsNotFinite) {
  const std::int64_t classes = 24001, channels = 8, rows = 150;
  const at::Tensor hidden = leaf({rows, channels}, compute(), 1),
                   weight = leaf({classes, channels}, master(), 2, 0.3);
  const at::Tensor targets = targets_of({rows}, classes, 3);
  {
    const at::NoGradGuard no_grad;
    hidden[rows - 1].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const auto slot = open_slot(weight);
  const Loss loss = linear_cross_entropy(hidden, weight, targets, copy_);
  EXPECT_FALSE(std::isfinite(loss.sum.item<double>()));
  EXPECT_TRUE(slot->main.isfinite().all().item<bool>());
  {
    const at::NoGradGuard no_grad;
    hidden[1].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const std::int64_t before = slot->contributions;
  EXPECT_FALSE(
      std::isfinite(linear_cross_entropy(hidden, weight, targets, copy_).sum.item<double>()));
  EXPECT_EQ(slot->contributions, before);
}

TEST_P(CrossEntropy, LeavesASlotUnfinishedWhereALaterChunkIsNotFinite) {
  const at::Tensor hidden = leaf({6, 4}, compute(), 1).detach(), poisoned = hidden.clone(),
                   weight = leaf({5, 4}, master(), 2);
  poisoned[5].fill_(std::numeric_limits<double>::quiet_NaN());
  const auto slot = open_slot(weight);
  const auto run = [&](const at::Tensor& rows) {
    const Loss loss =
        linear_cross_entropy(rows, weight, at::ones({6}, at::kLong), copy_, {.chunk_rows = 2});
    return loss.sum.item<double>();
  };
  EXPECT_FALSE(std::isfinite(run(poisoned)));
  EXPECT_TRUE(slot->fresh);
  EXPECT_FALSE(slot->unfinished);
  EXPECT_TRUE(std::isfinite(run(hidden)));
  EXPECT_FALSE(slot->fresh);
  EXPECT_EQ(slot->contributions, 1);
  EXPECT_FALSE(std::isfinite(run(poisoned)));
  EXPECT_TRUE(slot->unfinished);
  EXPECT_EQ(slot->contributions, 1);
}

/// Each row's loss is 2e38.
TEST_P(CrossEntropy, TakesASumBeyondItsPrecisionAsNotFinite) {
  const at::Tensor hidden = at::full({6, 1}, 2e38, compute()),
                   weight = at::tensor({1.0, 0.0, 0.0}, master()).view({3, 1}).requires_grad_(true);
  const auto slot = open_slot(weight);
  const Loss loss =
      linear_cross_entropy(hidden, weight, at::ones({6}, at::kLong), copy_, {.chunk_rows = 1});
  EXPECT_EQ(std::isfinite(loss.sum.item<double>()), compute() == at::kDouble);
  EXPECT_EQ(slot->contributions, compute() == at::kDouble ? 1 : 0);
}

TEST_P(CrossEntropy, RefusesForeignTargetsBeforeAnythingIsAdded) {
  const at::Tensor hidden = leaf({6, 4}, compute(), 1), weight = leaf({5, 4}, master(), 2);
  const auto slot = open_slot(weight);
  for (const std::int64_t wrong : {5, -1, 1 << 20}) {
    at::Tensor targets = targets_of({6}, 5, 3);
    targets[4] = wrong;
    EXPECT_THAT(error_of([&] { linear_cross_entropy(hidden, weight, targets, copy_); }),
                HasSubstr(std::to_string(wrong) + " in row 4"));
  }
  EXPECT_TRUE(slot->fresh);
  EXPECT_THAT(
      error_of([&] { linear_cross_entropy(hidden, weight, at::zeros({5}, at::kLong), copy_); }),
      HasSubstr("one target for each row"));
}

at::Tensor row_weights_of(at::IntArrayRef sizes) {
  at::manual_seed(9);
  at::Tensor weights = at::rand(sizes) * 3;
  weights.view(-1).slice(0, 1, weights.numel(), 7).zero_();
  return weights;
}

TEST_P(CrossEntropy, WeighsItsRowsAsATenDoes) {
  for (const Sizes& sizes : all_sizes) {
    SCOPED_TRACE(sizes.classes);
    const at::Tensor hidden = leaf({sizes.batch, sizes.length, sizes.channels}, compute(), 1),
                     weight = leaf({sizes.classes, sizes.channels}, master(), 2, 0.3);
    at::Tensor targets = targets_of({sizes.batch, sizes.length}, sizes.classes, 3);
    if (targets.numel() == 1) targets.fill_(1);
    const at::Tensor row_weights = row_weights_of(targets.sizes());
    const at::Tensor rhidden = in_double(hidden), rweight = in_double(weight);
    const at::Tensor rows =
        at::cross_entropy_loss(at::matmul(rhidden, rweight.t()).view({-1, sizes.classes}),
                               targets.view(-1), {}, at::Reduction::None, ignored_label);
    const at::Tensor counted = row_weights.to(at::kDouble) * (targets != ignored_label);
    const at::Tensor expected = (rows * counted.view(-1)).sum();

    const Loss loss = linear_cross_entropy(hidden, weight, targets, copy_,
                                           {.loss = {.row_weights = row_weights}});
    EXPECT_DOUBLE_EQ(loss.weight, counted.sum().item<double>());
    EXPECT_EQ(loss.weight, label_weight(targets, row_weights));
    EXPECT_TRUE(close(loss.sum, expected, compute(), 4));
    loss.sum.backward();
    expected.backward();
    const std::int64_t terms = terms_of(sizes);
    EXPECT_TRUE(close(hidden.grad(), rhidden.grad(), compute(), terms));
    EXPECT_TRUE(close(weight.grad(), rweight.grad(), compute(), terms));
    const auto unweighted =
        torch::autograd::grad({reference_sum(rhidden, rweight, targets)}, {rhidden});
    EXPECT_FALSE(close(hidden.grad(), unweighted[0], compute(), terms));
  }
}

TEST_P(CrossEntropy, EqualRowWeightsScaleAndOnesChangeNoBit) {
  const at::Tensor hidden = leaf({30, 8}, compute(), 1), weight = leaf({11, 8}, master(), 2);
  const at::Tensor targets = targets_of({30}, 11, 3);
  const auto run = [&](const at::Tensor& row_weights) {
    const Loss loss = linear_cross_entropy(hidden, weight, targets, copy_,
                                           {.loss = {.row_weights = row_weights}});
    auto results = torch::autograd::grad({loss.sum}, {hidden, weight});
    results.push_back(loss.sum.detach());
    return results;
  };
  const auto plain = run({}), ones = run(at::ones({30})), twos = run(at::full({30}, 2.0F));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(at::equal(ones[i], plain[i]));
    EXPECT_TRUE(at::equal(twos[i], plain[i] * 2));
  }
}

TEST_P(CrossEntropy, RowsOfWeightZeroAreIgnored) {
  const at::Tensor hidden = leaf({6, 4}, compute(), 1), weight = leaf({5, 4}, master(), 2);
  at::Tensor row_weights = at::ones({6}), targets = at::ones({6}, at::kLong);
  const auto run = [&] {
    const Loss loss = linear_cross_entropy(hidden, weight, targets, copy_,
                                           {.loss = {.row_weights = row_weights}});
    EXPECT_EQ(loss.weight, 5);
    return torch::autograd::grad({loss.sum}, {hidden, weight});
  };
  row_weights[2] = 0;
  const auto weightless = run();
  row_weights[2] = 1;
  targets[2] = ignored_label;
  const auto ignored = run();
  for (std::size_t i = 0; i < ignored.size(); ++i)
    EXPECT_TRUE(at::equal(weightless[i], ignored[i]));
}

TEST_P(CrossEntropy, RefusesRowWeightsByRowBeforeAnythingIsAdded) {
  const at::Tensor hidden = leaf({6, 4}, compute(), 1), weight = leaf({5, 4}, master(), 2);
  const auto slot = open_slot(weight);
  const auto message = [&](const at::Tensor& row_weights) {
    return error_of([&] {
      linear_cross_entropy(hidden, weight, targets_of({6}, 5, 3), copy_,
                           {.loss = {.row_weights = row_weights}});
    });
  };
  for (const float wrong :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor row_weights = at::ones({6});
    row_weights[4] = wrong;
    EXPECT_THAT(message(row_weights), HasSubstr("in row 4"));
  }
  EXPECT_THAT(message(at::ones({5})), HasSubstr("one fp32 weight for each target"));
  EXPECT_TRUE(slot->fresh);
}

}  // namespace cross_entropy_test
}  // namespace accrue::kernels
