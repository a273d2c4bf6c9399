// The head with a bias on its logits.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/kernels/cross_entropy.h"
#include "kernels/gradients.h"
#include "kernels/head_cases.h"
#include "kernels/plain/plain_operations.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace cross_entropy_bias_test {

using testing::all_sizes;
using testing::close;
using testing::error_of;
using ::testing::HasSubstr;
using testing::in_double;
using testing::leaf;
using testing::open_slot;
using testing::Sizes;

class CrossEntropyBias : public testing::HeadTest {
 protected:
  struct Head {
    at::Tensor hidden, weight, bias, targets;
  };
  Head head(const Sizes& sizes) const {
    at::manual_seed(3);
    const std::int64_t rows = sizes.batch * sizes.length;
    Head made{.hidden = leaf({rows, sizes.channels}, compute(), 1),
              .weight = leaf({sizes.classes, sizes.channels}, master(), 2, 0.3),
              .bias = leaf({sizes.classes}, master(), 4),
              .targets = at::randint(sizes.classes, {rows}, at::kLong)};
    if (rows > 1) made.targets[0].fill_(ignored_label);
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(All, CrossEntropyBias, ::testing::ValuesIn(testing::all_cases),
                         testing::case_name);

TEST_P(CrossEntropyBias, MatchesATen) {
  for (const Sizes& sizes : all_sizes) {
    SCOPED_TRACE(sizes.classes);
    const Head of = head(sizes);
    const at::Tensor hidden = in_double(of.hidden), weight = in_double(of.weight),
                     bias = in_double(of.bias);
    const Loss loss = linear_cross_entropy(of.hidden, of.weight, of.targets, copy_,
                                           {.bias = of.bias, .chunk_rows = testing::chunk_rows});
    const at::Tensor expected = at::cross_entropy_loss(at::linear(hidden, weight, bias), of.targets,
                                                       {}, at::Reduction::Sum, ignored_label);
    EXPECT_TRUE(close(loss.sum, expected, compute(), 4));
    loss.sum.backward();
    expected.backward();
    const std::int64_t terms = 4 * sizes.channels + 2 * sizes.batch * sizes.length;
    EXPECT_TRUE(close(of.hidden.grad(), hidden.grad(), compute(), terms));
    EXPECT_TRUE(close(of.weight.grad(), weight.grad(), compute(), terms));
    EXPECT_TRUE(close(of.bias.grad(), bias.grad(), compute(), terms));
    EXPECT_FALSE(close(of.bias.grad() * 1.05, bias.grad(), compute(), terms));

    const at::NoGradGuard no_grad;
    const Loss again =
        linear_cross_entropy(of.hidden, of.weight, of.targets, copy_, {.bias = of.bias});
    EXPECT_TRUE(close(again.sum, loss.sum, master(), 4));
    PreparedWeight none;
    EXPECT_TRUE(
        close(plain_operations()
                  .linear_cross_entropy(of.hidden, of.weight, of.targets, none, {.bias = of.bias})
                  .sum,
              expected, compute(), 4));
    EXPECT_FALSE(close(linear_cross_entropy(of.hidden, of.weight, of.targets, copy_).sum, expected,
                       compute(), 4))
        << "the bias is seen";
  }
}

TEST_P(CrossEntropyBias, AddsUpInItsSlotForTheScaleThatWasAskedFor) {
  const Head of = head(all_sizes[2]), plain = head(all_sizes[2]);
  linear_cross_entropy(plain.hidden, plain.weight, plain.targets, copy_, {.bias = plain.bias})
      .sum.backward();
  const auto of_weight = open_slot(of.weight), of_bias = open_slot(of.bias);
  for (int time = 0; time < 2; ++time) {
    const Loss loss = linear_cross_entropy(of.hidden, of.weight, of.targets, copy_,
                                           {.bias = of.bias, .gradient_scale = 0.5});
    loss.sum.backward(at::full({}, 0.5, loss.sum.options()));
  }
  EXPECT_TRUE(close(of_bias->main, plain.bias.grad(), compute(), 300));
  EXPECT_TRUE(close(of_weight->main, plain.weight.grad(), compute(), 300));
  EXPECT_FALSE(of.bias.grad().defined());
  EXPECT_EQ(of_bias->contributions, 2);
}

TEST_P(CrossEntropyBias, AloneCanBeTrained) {
  const Head of = head(all_sizes[0]), whole = head(all_sizes[0]);
  linear_cross_entropy(whole.hidden, whole.weight, whole.targets, copy_, {.bias = whole.bias})
      .sum.backward();
  linear_cross_entropy(of.hidden.detach(), of.weight.detach(), of.targets, copy_, {.bias = of.bias})
      .sum.backward();
  EXPECT_TRUE(close(of.bias.grad(), whole.bias.grad(), master(), 1));
  EXPECT_FALSE(of.weight.grad().defined());
}

TEST_P(CrossEntropyBias, ThatIsNotFiniteEndsTheSumAndLeavesTheSlotAlone) {
  const Head of = head(all_sizes[0]);
  {
    const at::NoGradGuard no_grad;
    of.bias[1].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const auto slot = open_slot(of.bias);
  const Loss loss =
      linear_cross_entropy(of.hidden, of.weight, of.targets, copy_, {.bias = of.bias});
  EXPECT_TRUE(loss.sum.isnan().item<bool>());
  EXPECT_TRUE(slot->fresh);
  EXPECT_EQ(slot->contributions, 0);
}

TEST_P(CrossEntropyBias, OfAnotherSizeIsRefused) {
  const Head of = head(all_sizes[0]);
  EXPECT_THAT(error_of([&] {
                linear_cross_entropy(of.hidden, of.weight, of.targets, copy_,
                                     {.bias = of.bias.narrow(0, 0, 3)});
              }),
              HasSubstr("bias [N]"));
}

}  // namespace cross_entropy_bias_test
}  // namespace accrue::kernels
