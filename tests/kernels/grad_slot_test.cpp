#include "accrue/kernels/grad_slot.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "accrue/kernels/linear.h"
#include "kernels/gradients.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace grad_slot_test {

using testing::close;
using testing::error_of;
using ::testing::HasSubstr;
using testing::leaf;
using testing::open_slot;

class ForeignHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  void operator()(const at::Tensor&) override {}
};

TEST(GradSlot, IsFoundOnTheParameterAndOnlyThere) {
  const at::Tensor parameter = leaf({3}, at::kFloat, 1), other = leaf({3}, at::kFloat, 2);
  EXPECT_EQ(slot_of(parameter), nullptr);
  EXPECT_EQ(slot_of(at::Tensor()), nullptr);
  EXPECT_EQ(slot_of(at::ones({3})), nullptr);
  const auto slot = open_slot(parameter);
  EXPECT_EQ(slot_of(parameter), slot.get());
  EXPECT_EQ(open_slot_of(parameter), slot.get());
  EXPECT_EQ(slot_of(other), nullptr);
  slot->open = false;
  EXPECT_EQ(slot_of(parameter), slot.get());
  EXPECT_EQ(open_slot_of(parameter), nullptr);
  kernels::detach(parameter);
  EXPECT_EQ(slot_of(parameter), nullptr);
}

TEST(GradSlot, ReplacesAnEarlierSlotButNoForeignHook) {
  const at::Tensor parameter = leaf({3}, at::kFloat, 1);
  const auto first = open_slot(parameter), second = open_slot(parameter);
  EXPECT_EQ(slot_of(parameter), second.get());

  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<ForeignHook>());
  EXPECT_THAT(error_of([&] { attach(parameter, first); }), HasSubstr("a hook of other code"));
  EXPECT_EQ(slot_of(parameter), nullptr);
  kernels::detach(parameter);
  EXPECT_NE(torch::autograd::impl::post_acc_grad_hooks(parameter), nullptr);
}

TEST(GradSlot, RefusesWhatIsNoParameter) {
  const at::Tensor parameter = leaf({3}, at::kFloat, 1);
  const auto slot = std::make_shared<GradSlot>(at::zeros({3}));
  EXPECT_THAT(error_of([&] { attach(parameter * 2, slot); }), HasSubstr("a leaf tensor"));
  EXPECT_THAT(error_of([&] { attach(at::zeros({3}), slot); }), HasSubstr("a leaf tensor"));
  EXPECT_THAT(error_of([&] { attach(leaf({4}, at::kFloat, 1), slot); }), HasSubstr("shape"));
}

TEST(GradSlot, MovesWhatComesThroughAutograd) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor parameter = leaf({4, 3}, dtype, 1);
    const at::Tensor first = leaf({4, 3}, dtype, 2).detach(),
                     second = leaf({4, 3}, dtype, 3).detach();
    const auto slot = open_slot(parameter);
    (parameter * first).sum().backward();
    EXPECT_TRUE(close(slot->main, first, slot->main.scalar_type(), 1));
    EXPECT_FALSE(slot->fresh);
    EXPECT_EQ(slot->contributions, 1);
    (parameter * second).sum().backward();
    const at::Tensor expected = first.to(at::kDouble) + second.to(at::kDouble);
    EXPECT_TRUE(close(slot->main, expected, slot->main.scalar_type(), 2));
    EXPECT_FALSE(close(slot->main, expected + first, slot->main.scalar_type(), 2));
    EXPECT_EQ(slot->contributions, 2);
    EXPECT_EQ(slot->bound._version(), slot->bound_version);
    const at::Tensor shown = dtype == at::kBFloat16 ? at::Tensor() : slot->bound;
    EXPECT_TRUE(parameter.grad().is_same(shown));
  }
}

TEST(GradSlot, KeepsSmallTermsThatBfloat16WouldDrop) {
  const at::Tensor parameter = at::zeros({1}, at::kBFloat16).requires_grad_(true);
  const auto slot = open_slot(parameter);
  for (int i = 0; i < 300; ++i) parameter.sum().backward();
  EXPECT_EQ(slot->main.item<float>(), 300);
}

TEST(GradSlot, LeavesAutogradAloneWhileClosed) {
  const at::Tensor parameter = leaf({3}, at::kFloat, 1);
  const auto slot = open_slot(parameter);
  slot->open = false;
  parameter.sum().backward();
  EXPECT_TRUE(at::equal(parameter.grad(), at::ones({3})));
  EXPECT_TRUE(slot->fresh);
  EXPECT_EQ(slot->contributions, 0);
  EXPECT_EQ(slot->main[0].item<float>(), 1e30F);
}

TEST(GradSlot, SeesThatSomebodyElseWroteToTheGradient) {
  const at::Tensor parameter = leaf({3}, at::kFloat, 1);
  const auto slot = open_slot(parameter);
  parameter.sum().backward();
  EXPECT_EQ(slot->bound._version(), slot->bound_version);
  parameter.grad().zero_();
  EXPECT_NE(slot->bound._version(), slot->bound_version);
}

TEST(GradSlot, RefusesSparseGradientsAndGraphsOfGradients) {
  const at::Tensor table = leaf({5, 2}, at::kFloat, 1), parameter = leaf({3}, at::kFloat, 1);
  const auto table_slot = open_slot(table), slot = open_slot(parameter);
  const at::Tensor ids = at::tensor({1, 3}, at::kLong);
  const at::Tensor rows = at::embedding(table, ids, -1, false, /*sparse=*/true);
  EXPECT_THAT(error_of([&] { rows.sum().backward(); }), HasSubstr("dense"));
  EXPECT_THAT(
      error_of([&] { (parameter * parameter).sum().backward({}, {}, /*create_graph=*/true); }),
      HasSubstr("create_graph"));
  EXPECT_EQ(table_slot->contributions + slot->contributions, 0);
}

TEST(GradSlot, RefusesAFreshSlotWhoseOldContentsWereAddedTo) {
  const at::Tensor parameter = leaf({3}, at::kFloat, 1);
  const auto slot = open_slot(parameter);
  parameter.mutable_grad() = slot->bound;
  EXPECT_THAT(error_of([&] { parameter.sum().backward(); }), HasSubstr("fresh"));
}

/// Sums its input twice.
class DoublingFold final : public GradFold {
 public:
  explicit DoublingFold(at::Tensor main) : main_(std::move(main)) { main_.zero_(); }
  Contribution stage() override {
    staged_ = at::full_like(main_, 1e30);
    return {.into = staged_, .add = false};
  }
  void take_staged(GradSlot& slot) override { take(slot, staged_); }
  void take(GradSlot&, const at::Tensor& contribution) override { main_.add_(contribution, 2); }

 private:
  at::Tensor main_, staged_;
};

/// A weight that is used by our linear (which writes to the slot) and by ATen (whose gradient comes
/// through autograd), in both orders, several micro-batches.
class TiedWeight : public ::testing::TestWithParam<std::string> {
 protected:
  /// The micro-batch's sum for a weight, by our kernel or by ATen, as the letters say.
  static at::Tensor sum_of(const std::string& uses, const at::Tensor& weight, bool plain) {
    PreparedWeight copy;
    at::Tensor total = at::zeros({}, weight.options());
    std::uint64_t seed = 10;
    for (const char use : uses) {
      const at::Tensor x = leaf({5, 3}, weight.scalar_type(), ++seed).detach();
      const bool by_kernel = use == 'k' && !plain;
      const at::Tensor y = by_kernel ? linear(x, weight, {}, copy) : at::matmul(x, weight.t());
      total = total + (y * y).sum();
    }
    return total;
  }
};
INSTANTIATE_TEST_SUITE_P(Orders, TiedWeight,
                         ::testing::Values("k", "a", "ka", "ak", "kk", "aka", "kak"));

TEST_P(TiedWeight, GetsBothContributions) {
  const at::Tensor weight = leaf({4, 3}, at::kDouble, 1),
                   reference = weight.detach().clone().requires_grad_(true);
  const auto slot = open_slot(weight);
  for (int micro = 1; micro <= 3; ++micro) {
    sum_of(GetParam(), weight, false).backward();
    sum_of(GetParam(), reference, true).backward();
    EXPECT_TRUE(close(slot->main, reference.grad(), at::kDouble, 60));
    EXPECT_FALSE(close(slot->main, reference.grad() * 1.001, at::kDouble, 60));
    EXPECT_EQ(slot->bound._version(), slot->bound_version);
  }
}

TEST_P(TiedWeight, GivesBothContributionsToAFold) {
  const at::Tensor weight = leaf({4, 3}, at::kDouble, 1),
                   reference = weight.detach().clone().requires_grad_(true);
  const auto slot = open_slot(weight);
  slot->fold = std::make_shared<DoublingFold>(slot->main);
  for (int micro = 1; micro <= 3; ++micro) {
    sum_of(GetParam(), weight, false).backward();
    sum_of(GetParam(), reference, true).backward();
    EXPECT_TRUE(close(slot->main, 2 * reference.grad(), at::kDouble, 60));
    EXPECT_FALSE(weight.grad().defined());
    EXPECT_FALSE(slot->fresh);
  }
}

TEST_P(TiedWeight, GetsThemFromSeparateBackwardPasses) {
  const at::Tensor weight = leaf({4, 3}, at::kDouble, 1),
                   reference = weight.detach().clone().requires_grad_(true);
  const auto slot = open_slot(weight);
  for (const char use : GetParam() + GetParam()) {
    sum_of({use}, weight, false).backward();
    sum_of({use}, reference, true).backward();
    EXPECT_TRUE(close(slot->main, reference.grad(), at::kDouble, 60));
  }
  EXPECT_EQ(slot->contributions, static_cast<std::int64_t>(2 * GetParam().size()));
}

}  // namespace grad_slot_test
}  // namespace accrue::kernels
