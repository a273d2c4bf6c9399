#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace class_cross_entropy_test {

using testing::close;
using ::testing::HasSubstr;
using testing::in_double;
using testing::leaf;

class ClassCrossEntropy : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }
  const at::Tensor targets_ = at::tensor({3, 0, -100, 6, 2}, at::kLong);
  const at::Tensor row_weights_ = at::tensor({0.5F, 2.0F, 7.0F, 0.0F, 1.25F});
};
INSTANTIATE_TEST_SUITE_P(All, ClassCrossEntropy,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

/// -log of the softmax, written out, by rows.
at::Tensor written_out(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor e = logits.exp();
  const at::Tensor at_target = e.gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1);
  return (e.sum(-1) / at_target).log() * (targets != ignored_label);
}

TEST_P(ClassCrossEntropy, IsTheSumAndTheCount) {
  const at::Tensor logits = leaf({5, 7}, dtype(), 1), wide = in_double(logits);
  const Loss loss = cross_entropy(logits, targets_);
  const at::Tensor expected = written_out(wide, targets_).sum();
  EXPECT_EQ(loss.weight, 4);
  EXPECT_EQ(loss.weight, label_weight(targets_));
  EXPECT_TRUE(close(loss.sum, expected, dtype(), 7));
  loss.sum.backward();
  expected.backward();
  EXPECT_TRUE(close(logits.grad(), wide.grad(), dtype(), 7));
  EXPECT_FALSE(close(logits.grad(), wide.grad() / 4, dtype(), 7));
}

TEST_P(ClassCrossEntropy, WeighsItsRows) {
  const at::Tensor logits = leaf({5, 7}, dtype(), 1), wide = in_double(logits);
  const Loss loss = cross_entropy(logits, targets_, {.row_weights = row_weights_});
  const at::Tensor expected = (written_out(wide, targets_) * row_weights_.to(at::kDouble)).sum();
  EXPECT_EQ(loss.weight, 3.75);
  EXPECT_EQ(loss.weight, label_weight(targets_, row_weights_));
  EXPECT_TRUE(close(loss.sum, expected, dtype(), 7));
  EXPECT_FALSE(close(loss.sum, written_out(wide, targets_).sum(), dtype(), 7));
  loss.sum.backward();
  expected.backward();
  EXPECT_TRUE(close(logits.grad(), wide.grad(), dtype(), 7));
}

/// Row 2 is ignored by its label, row 3 by its weight.
TEST_P(ClassCrossEntropy, TakesNothingFromRowsThatDoNotCount) {
  const at::Tensor counting = at::tensor({0, 1, 4}, at::kLong),
                   rest = at::tensor({2, 3}, at::kLong);
  const CrossEntropyOptions options{
      .row_weights = row_weights_, .label_smoothing = 0.1, .z_loss = 1e-2};
  const auto run = [&](const at::Tensor& logits, const at::Tensor& targets,
                       const CrossEntropyOptions& with) {
    const Loss loss = cross_entropy(logits, targets, with);
    loss.sum.backward();
    return Loss{loss.sum.detach(), loss.weight};
  };
  at::Tensor values = leaf({5, 7}, dtype(), 1).detach();
  CrossEntropyOptions of_counting = options;
  of_counting.row_weights = row_weights_.index_select(0, counting);
  const at::Tensor alone = values.index_select(0, counting).requires_grad_(true);
  const Loss expected = run(alone, targets_.index_select(0, counting), of_counting);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    values.index_fill_(0, rest, bad);
    const at::Tensor logits = values.clone().requires_grad_(true);
    const Loss actual = run(logits, targets_, options);
    EXPECT_TRUE(close(actual.sum, expected.sum, dtype(), 7));
    EXPECT_EQ(actual.weight, expected.weight);
    EXPECT_TRUE(close(logits.grad().index_select(0, counting), alone.grad(), dtype(), 7));
    EXPECT_TRUE((logits.grad().index_select(0, rest) == 0).all().item<bool>());
  }
}

TEST_P(ClassCrossEntropy, TakesSequencesAndNothing) {
  const at::Tensor logits = leaf({2, 5, 7}, dtype(), 1).detach();
  const at::Tensor targets = at::stack({targets_, targets_});
  const Loss loss = cross_entropy(logits, targets);
  EXPECT_EQ(loss.weight, 8);
  EXPECT_TRUE(close(loss.sum, written_out(logits.to(at::kDouble), targets).sum(), dtype(), 7));
  const Loss none = cross_entropy(leaf({0, 7}, dtype(), 1), targets_.slice(0, 0, 0));
  EXPECT_EQ(none.sum.item<double>(), 0);
  EXPECT_EQ(none.weight, 0);
}

TEST_P(ClassCrossEntropy, RefusesWhatDoesNotFit) {
  const auto message = [&](const at::Tensor& logits, const at::Tensor& targets,
                           const at::Tensor& row_weights = {}) {
    try {
      cross_entropy(logits, targets, {.row_weights = row_weights});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const at::Tensor logits = leaf({5, 7}, dtype(), 1);
  EXPECT_THAT(message(logits, at::tensor({0, 0, 7, 0, 0}, at::kLong)), HasSubstr("7 in row 2"));
  EXPECT_THAT(message(logits, at::tensor({0, -1, 0, 0, 0}, at::kLong)), HasSubstr("-1 in row 1"));
  EXPECT_THAT(message(logits, targets_.slice(0, 0, 4)), HasSubstr("logits [..., K]"));
  EXPECT_THAT(message(logits, targets_.to(at::kInt)), HasSubstr("int64 targets"));
  EXPECT_THAT(message(targets_, targets_), HasSubstr("logits [..., K]"));
  EXPECT_THAT(message(logits, targets_, row_weights_.slice(0, 0, 4)),
              HasSubstr("one fp32 weight for each target"));
  EXPECT_THAT(message(logits, targets_, row_weights_.to(at::kDouble)), HasSubstr("fp32"));
  for (const float wrong : {-0.5F, std::numeric_limits<float>::infinity(), NAN}) {
    at::Tensor weights = row_weights_.clone();
    weights[3] = wrong;
    EXPECT_THAT(message(logits, targets_, weights), HasSubstr(" in row 3"));
  }
}

}  // namespace class_cross_entropy_test
}  // namespace accrue::kernels
