// Weights without gradients: the savings, and the unchanged results.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/linear.h"
#include "kernels/gradients.h"

namespace accrue::kernels {
namespace frozen_weight_test {

using testing::leaf;

class FrozenWeight : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType compute() const { return GetParam(); }
  at::ScalarType master() const { return compute() == at::kDouble ? compute() : at::kFloat; }
  at::Tensor weight(bool frozen) const {
    return leaf({20, 12}, master(), 1, 0.3).detach().requires_grad_(!frozen);
  }
  at::Tensor input() const { return leaf({4, 2, 12}, compute(), 5); }
  at::Tensor upstream() const { return leaf({4, 2, 20}, compute(), 6).detach(); }

  PreparedWeight prepared_;
};
INSTANTIATE_TEST_SUITE_P(All, FrozenWeight,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

/// Without the product for the weight's gradient, x need not be recomputed.
TEST_P(FrozenWeight, CostsALinearLayerNoProduct) {
  const auto input_gradient_of = [&](bool frozen) {
    std::int64_t remade = 0;
    const at::Tensor w = weight(frozen), x = input();
    const Remake remake = [&remade, x] {
      ++remade;
      return x.detach();
    };
    linear(x, w, {}, prepared_, remake).backward(upstream());
    EXPECT_EQ(w.grad().defined(), !frozen);
    EXPECT_EQ(remade, frozen ? 0 : 1);
    return x.grad();
  };
  EXPECT_TRUE(at::equal(input_gradient_of(true), input_gradient_of(false)));
}

TEST_P(FrozenWeight, LetsALinearLayersInputGo) {
  for (const bool frozen : {true, false}) {
    at::Tensor x = input() * 1;
    const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> watched(
        x.getIntrusivePtr());
    const at::Tensor y = linear(x, weight(frozen), {}, prepared_);
    x.reset();
    EXPECT_EQ(watched.expired(), frozen);
  }
}

TEST_P(FrozenWeight, LeavesTheGradientOfHiddenRowsAsItIs) {
  const at::Tensor targets = at::arange(8).view({4, 2});
  const auto input_gradient_of = [&](bool frozen) {
    const at::Tensor w = weight(frozen), x = input();
    linear_cross_entropy(x, w, targets, prepared_).sum.backward();
    EXPECT_EQ(w.grad().defined(), !frozen);
    return x.grad();
  };
  EXPECT_TRUE(at::equal(input_gradient_of(true), input_gradient_of(false)));
}

}  // namespace frozen_weight_test
}  // namespace accrue::kernels
