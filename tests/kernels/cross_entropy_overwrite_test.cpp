#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/norm.h"
#include "kernels/gradients.h"
#include "kernels/head_cases.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace cross_entropy_overwrite_test {

using testing::close;
using testing::in_double;
using testing::leaf;

constexpr std::int64_t rows = 30, channels = 8, classes = 11;

class OverwrittenHidden : public testing::HeadTest {
 protected:
  at::Tensor hidden() const { return leaf({rows, channels}, compute(), 1); }

  Loss loss_of(const at::Tensor& hidden, LinearCrossEntropyOptions options = {}) {
    options.overwrite_hidden = true;
    return linear_cross_entropy(hidden, weight_, targets_, copy_, options);
  }

  CrossEntropyOptions all_options() const {
    return {.row_weights = at::arange(rows).remainder(5).to(at::kFloat) * 0.5,
            .ignored = 4,
            .label_smoothing = 0.2,
            .z_loss = 0.1};
  }

  const at::Tensor weight_ = leaf({classes, channels}, master(), 2),
                   targets_ = at::arange(rows).mul(7).remainder(classes);
};
INSTANTIATE_TEST_SUITE_P(All, OverwrittenHidden, ::testing::ValuesIn(testing::all_cases),
                         testing::case_name);

TEST_P(OverwrittenHidden, HoldsItsGradientWithTheBitsOfOneApart) {
  for (const CrossEntropyOptions& loss_options : {CrossEntropyOptions{}, all_options()})
    for (const std::int64_t chunk_rows : {0, 1, 7, 64}) {
      const LinearCrossEntropyOptions options{.loss = loss_options, .chunk_rows = chunk_rows};
      const at::Tensor apart = hidden(), within = hidden();
      const Loss expected = linear_cross_entropy(apart, weight_, targets_, copy_, options);
      const auto expected_gradients = torch::autograd::grad({expected.sum}, {apart, weight_});
      EXPECT_TRUE(at::equal(apart, hidden()));
      const Loss loss = loss_of(within, options);
      EXPECT_TRUE(at::equal(loss.sum, expected.sum));
      EXPECT_EQ(loss.weight, expected.weight);
      const auto gradients = torch::autograd::grad({loss.sum}, {within, weight_});
      EXPECT_EQ(gradients[0].const_data_ptr(), within.const_data_ptr());
      for (std::size_t i = 0; i < gradients.size(); ++i)
        EXPECT_TRUE(at::equal(gradients[i], expected_gradients[i]));
    }
}

TEST_P(OverwrittenHidden, HasTheGradientOfDoublePrecision) {
  const at::Tensor within = hidden(), rhidden = in_double(within), rweight = in_double(weight_);
  at::cross_entropy_loss(at::matmul(rhidden, rweight.t()), targets_, {}, at::Reduction::Sum)
      .backward();
  const at::Tensor values = within.detach().clone();
  loss_of(within, {.chunk_rows = 7}).sum.backward();
  EXPECT_TRUE(close(within.grad(), rhidden.grad(), compute(), 4 * rows));
  EXPECT_TRUE(close(weight_.grad(), rweight.grad(), compute(), 4 * rows));
  EXPECT_FALSE(close(values, rhidden.grad(), compute(), 4 * rows));
}

/// As in a model: the producer of the hidden states does not need them again.
TEST_P(OverwrittenHidden, PassesItsGradientOnToTheNormBeforeIt) {
  const at::Tensor scale = at::ones({channels}, weight_.options().requires_grad(false)),
                   shift = at::zeros_like(scale);
  const auto gradient = [&](bool overwrite) {
    const at::Tensor x = leaf({2, rows / 2, channels}, master(), 5);
    const at::Tensor hidden = layer_norm(x, scale, shift, 1e-5, compute());
    const Loss loss = linear_cross_entropy(hidden, weight_, targets_.view({2, rows / 2}), copy_,
                                           {.overwrite_hidden = overwrite});
    return torch::autograd::grad({loss.sum}, {x})[0];
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

TEST_P(OverwrittenHidden, IsRefusedToABackwardPassThatNeedsItsValues) {
  const at::Tensor x = hidden();
  const auto backward = [&](bool overwrite) {
    const at::Tensor hidden = x * 2, squares = hidden.square().sum().to(master());
    const Loss loss =
        linear_cross_entropy(hidden, weight_, targets_, copy_, {.overwrite_hidden = overwrite});
    (loss.sum + squares).backward();
  };
  EXPECT_THROW(backward(true), c10::Error);
  EXPECT_NO_THROW(backward(false));
}

TEST_P(OverwrittenHidden, StaysWhereItsGradientIsNotWantedOrItIsNotContiguous) {
  const at::Tensor plain = hidden(), values = plain.detach().clone();
  {
    const at::NoGradGuard no_grad;
    loss_of(plain);
  }
  EXPECT_TRUE(at::equal(plain, values));
  loss_of(plain.detach()).sum.backward();
  EXPECT_TRUE(at::equal(plain, values));
  EXPECT_EQ(plain._version(), hidden()._version());

  const at::Tensor columns = values.t().contiguous().requires_grad_(true),
                   row = values[0].clone().requires_grad_(true);
  for (const at::Tensor& other : {columns.t(), row.expand({rows, channels})}) {
    const at::Tensor before = other.detach().clone();
    const auto gradient = torch::autograd::grad({loss_of(other).sum}, {other})[0];
    const at::Tensor same = before.clone().requires_grad_(true);
    EXPECT_TRUE(at::equal(other, before));
    EXPECT_TRUE(close(gradient, torch::autograd::grad({loss_of(same).sum}, {same})[0], compute(),
                      4 * rows));
  }
}

TEST_P(OverwrittenHidden, IsZeroFromAChunkOnThatIsNotFinite) {
  const at::Tensor finite = hidden(), poisoned = hidden();
  {
    const at::NoGradGuard no_grad;
    poisoned[16].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const std::int64_t chunk = 6, begin = 12;  // the chunk of row 16
  loss_of(finite, {.chunk_rows = chunk});
  EXPECT_FALSE(std::isfinite(loss_of(poisoned, {.chunk_rows = chunk}).sum.item<double>()));
  EXPECT_TRUE(at::equal(poisoned.narrow(0, 0, begin), finite.narrow(0, 0, begin)));
  EXPECT_TRUE(at::equal(poisoned.narrow(0, begin, rows - begin),
                        at::zeros({rows - begin, channels}, poisoned.options())));
}

TEST_P(OverwrittenHidden, MakesTheGradientOfAnotherUpstreamElsewhere) {
  const at::Tensor once = hidden(), half = hidden();
  const auto expected = torch::autograd::grad({loss_of(once).sum}, {once})[0];
  const auto gradient = torch::autograd::grad({loss_of(half).sum * 0.5}, {half})[0];
  EXPECT_TRUE(at::equal(gradient, expected * 0.5));
}

}  // namespace cross_entropy_overwrite_test
}  // namespace accrue::kernels
