#include "accrue/accum/gradient_buffer.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/function_hook.h>

#include "accum/problem.h"

namespace accrue::accum {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

at::Tensor parameter(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return at::ones(shape, dtype).requires_grad_(true);
}

TEST(GradientBuffer, LaysSlotsOutInReverseAlignedTo64Bytes) {
  const GradientBuffer buffer(
      {{"a", parameter({3})}, {"b", parameter({2, 5})}, {"c", parameter({1})}});
  ASSERT_EQ(buffer.entries().size(), 3u);
  ASSERT_EQ(buffer.flat().size(), 1u);
  const float* flat = buffer.flat()[0].const_data_ptr<float>();
  const auto offset = [&](std::size_t i) {
    return buffer.entries()[i].slot->main.const_data_ptr<float>() - flat;
  };
  EXPECT_EQ(offset(2), 0);
  EXPECT_EQ(offset(1), 16);
  EXPECT_EQ(offset(0), 32);
  EXPECT_EQ(buffer.bytes(), 48 * 4);
  EXPECT_EQ(buffer.entries()[1].slot->main.sizes(), at::IntArrayRef({2, 5}));
  EXPECT_EQ(buffer.flat()[0].abs().sum().item<double>(), 0);
}

TEST(GradientBuffer, HasOneFlatPerDtypeAndFp32SlotsForNarrowParameters) {
  const GradientBuffer buffer({{"half", parameter({4}, at::kBFloat16)},
                               {"double", parameter({4}, at::kDouble)},
                               {"float", parameter({4})}});
  ASSERT_EQ(buffer.flat().size(), 2u);
  EXPECT_EQ(buffer.entries()[0].slot->main.scalar_type(), at::kFloat);
  EXPECT_EQ(buffer.entries()[1].slot->main.scalar_type(), at::kDouble);
  EXPECT_FALSE(grad_can_view_slot(buffer.entries()[0]));
  EXPECT_TRUE(grad_can_view_slot(buffer.entries()[1]));
}

TEST(GradientBuffer, TakesTiedParametersOnceAndFrozenOnesNever) {
  const at::Tensor tied = parameter({3});
  const GradientBuffer buffer({{"embedding", tied},
                               {"frozen", at::ones({3})},
                               {"frozen.ids", at::ones({3}, at::kLong)},
                               {"head", tied}});
  ASSERT_EQ(buffer.entries().size(), 1u);
  EXPECT_EQ(buffer.entries()[0].name, "embedding");
}

TEST(GradientBuffer, RefusesWhatHasNoGradientOfItsOwn) {
  EXPECT_THAT(error_of([] { GradientBuffer({{"sum", parameter({2}) * 2}}); }), HasSubstr("'sum'"));
  EXPECT_THAT(error_of([] { GradientBuffer({{"none", at::Tensor()}}); }), HasSubstr("undefined"));
  EXPECT_THAT(error_of([] {
                GradientBuffer({{"w", parameter({2})}, {"w", parameter({2})}});
              }),
              HasSubstr("'w' twice"));
  EXPECT_THAT(error_of([] {
                GradientBuffer({{"z", parameter({2}, at::kComplexFloat)}});
              }),
              HasSubstr("floating point"));
}

TEST(GradientBuffer, AttachesItsSlotsAndLeavesOnlyThoseThatAreItsOwn) {
  const at::Tensor w = parameter({2});
  auto first = std::make_unique<GradientBuffer>(NamedParameters{{"w", w}});
  EXPECT_EQ(kernels::slot_of(w), first->entries()[0].slot.get());
  const auto second = std::make_unique<GradientBuffer>(NamedParameters{{"w", w}});
  first.reset();
  EXPECT_EQ(kernels::slot_of(w), second->entries()[0].slot.get());
  second->entries()[0].slot->in_window = true;
  EXPECT_THAT(error_of([&] { GradientBuffer({{"other name", w}}); }), HasSubstr("'other name'"));
}

struct ForeignHook : torch::autograd::PostAccumulateGradHook {
  void operator()(const at::Tensor&) override {}
};

TEST(GradientBuffer, RefusesSomebodyElsesHookAndLeavesTheOtherParametersFree) {
  const at::Tensor free = parameter({2}), hooked = parameter({2});
  torch::autograd::impl::set_post_acc_grad_hooks(hooked, std::make_unique<ForeignHook>());
  EXPECT_THAT(error_of([&] {
                GradientBuffer({{"free", free}, {"hooked", hooked}});
              }),
              HasSubstr("hook"));
  EXPECT_EQ(kernels::slot_of(free), nullptr);
}

TEST(GradientBuffer, LeavesParametersWithoutASlotWhenItEnds) {
  const at::Tensor w = parameter({2});
  { const GradientBuffer buffer({{"w", w}}); }
  EXPECT_EQ(kernels::slot_of(w), nullptr);
}

}  // namespace
}  // namespace accrue::accum
