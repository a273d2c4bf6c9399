#include "accrue/kernels/prepared_weight.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accrue/kernels/linear.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace prepared_weight_test {

using testing::close;
using testing::in_double;
using testing::leaf;

TEST(LowPrecision, IsMadeAgainOnlyWhenTheMasterChanged) {
  const at::Tensor master = leaf({4, 3}, at::kFloat, 1);
  PreparedWeight copy;
  EXPECT_TRUE(copy.copy(master, at::kFloat).is_same(master));
  const at::Tensor first = copy.copy(master, at::kBFloat16);
  EXPECT_TRUE(at::equal(first, master.detach().to(at::kBFloat16)));
  EXPECT_FALSE(first.requires_grad());
  const auto version = first._version();
  EXPECT_EQ(copy.copy(master, at::kBFloat16)._version(), version);
  {
    const at::NoGradGuard no_grad;
    master.add_(1);
  }
  EXPECT_TRUE(at::equal(copy.copy(master, at::kBFloat16), master.detach().to(at::kBFloat16)));
  EXPECT_NE(first._version(), version);
  const at::Tensor other = leaf({4, 3}, at::kFloat, 2);
  EXPECT_TRUE(at::equal(copy.copy(other, at::kBFloat16), other.detach().to(at::kBFloat16)));
}

TEST(LowPrecision, IsReadInPlaceOfItsMasterUntilThatChanges) {
  const at::Tensor master = leaf({4, 3}, at::kFloat, 1);
  PreparedWeight copy;
  ASSERT_EQ(copy.next_operands(master).size(), 1U);
  EXPECT_TRUE(copy.next_operands(master)[0].is_same(master));
  const at::Tensor made = copy.copy(master, at::kBFloat16);
  ASSERT_EQ(copy.next_operands(master).size(), 1U);
  EXPECT_TRUE(copy.next_operands(master)[0].is_same(made));
  {
    const at::NoGradGuard no_grad;
    master.add_(1);
  }
  ASSERT_EQ(copy.next_operands(master).size(), 2U);
  EXPECT_TRUE(copy.next_operands(master)[1].is_same(master));
}

TEST(LowPrecision, IsMadeAgainIfItsMemoryWasTakenBack) {
  const at::Tensor master = leaf({4, 3}, at::kFloat, 1);
  PreparedWeight copy;
  copy.copy(master, at::kBFloat16).set_data(at::empty({0}, at::kBFloat16));
  ASSERT_EQ(copy.next_operands(master).size(), 1U);
  EXPECT_TRUE(copy.next_operands(master)[0].is_same(master));
  EXPECT_TRUE(at::equal(copy.copy(master, at::kBFloat16), master.detach().to(at::kBFloat16)));
}

/// Wide enough for a special layout on every machine that has one.
constexpr std::int64_t wide = 64;

TEST(PackedWeight, IsMadeAgainOnlyWhenTheMasterChanged) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor master = leaf({wide, wide}, at::kFloat, 1, 0.3), x = leaf({3, wide}, dtype, 2);
    PreparedWeight plain, packed;
    packed.pack(true);
    const WeightOperands first = packed.operands(master, dtype, true);
    const auto version = first.forward._version();
    EXPECT_TRUE(packed.operands(master, dtype, true).data_gradient.is_same(first.data_gradient));
    EXPECT_EQ(first.forward._version(), version);
    {
      const at::NoGradGuard no_grad;
      master.mul_(-2);
    }
    EXPECT_TRUE(
        close(linear(x, master, {}, packed), in_double(linear(x, master, {}, plain)), dtype, wide));
    EXPECT_TRUE(first.forward._version() != version || first.forward.dim() == 2);
  }
}

TEST(PackedWeight, AGraphThatHoldsTheOldValuesIsToldOfTheNewOnes) {
  const at::Tensor master = leaf({wide, wide}, at::kFloat, 1), x = leaf({3, wide}, at::kFloat, 2);
  PreparedWeight packed;
  packed.pack(true);
  const at::Tensor sum = linear(x, master, {}, packed).sum();
  {
    const at::NoGradGuard no_grad;
    master.add_(1);
  }
  linear(x, master, {}, packed);
  EXPECT_THROW(sum.backward(), c10::Error);
}

TEST(PackedWeight, HasNoOperandThatWasNotAskedFor) {
  const at::Tensor master = leaf({wide, wide}, at::kFloat, 1);
  PreparedWeight prepared;
  for (const bool packed : {false, true}) {
    prepared.pack(packed);
    EXPECT_FALSE(prepared.operands(master, at::kFloat, false).data_gradient.defined());
  }
  prepared.pack(false);
  EXPECT_TRUE(prepared.operands(master, at::kFloat, true).forward.is_same(master));
}

}  // namespace prepared_weight_test
}  // namespace accrue::kernels
