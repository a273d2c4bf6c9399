#include "kernels/gemm/packed_gemm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/onednn_gemm.h"
#include "kernels/gradients.h"
#include "support/skip.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace packed_gemm_test {

using testing::close;
using ::testing::HasSubstr;

at::Tensor values(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed) {
  return testing::leaf(sizes, dtype, seed).detach();
}

/// Undefined if products read a plain operand just as fast.
at::Tensor packed_of(const at::Tensor& b) {
  const std::int64_t elements = packed_elements(b.options(), b.size(0), b.size(1));
  if (elements == 0) return {};
  at::Tensor packed = at::empty({elements}, b.options());
  pack_out(packed, b);
  return packed;
}

void skip_without_packing() {
  if (onednn::description().empty()) return testing::missing_in_build("oneDNN");
  testing::not_possible_here("this machine's products have no layout of their own");
}

class PackedGemm : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(All, PackedGemm, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

/// One layout serves left operands of any height, and right ones by rows and by columns.
TEST_P(PackedGemm, MultipliesAsItsPlainOperandDoes) {
  int compared = 0;
  for (const std::int64_t k : {3, 48, 130})
    for (const std::int64_t n : {1, 48, 200}) {
      const at::Tensor b = values({k, n}, GetParam(), 2);
      const at::Tensor by_rows = packed_of(b), by_columns = packed_of(b.t().contiguous().t());
      if (!by_rows.defined()) continue;
      for (const std::int64_t m : {1, 5, 64, 300}) {
        SCOPED_TRACE(::testing::Message() << m << " x " << k << " x " << n);
        const at::Tensor a = values({m, k}, GetParam(), 1), bias = values({n}, at::kFloat, 3);
        const at::Tensor product = a.to(at::kDouble).matmul(b.to(at::kDouble));
        at::Tensor out = at::empty({m, n}, a.options());
        gemm_packed_out(out, a, by_rows);
        EXPECT_TRUE(close(out, product, GetParam(), k + 2));
        gemm_packed_out(out, a, by_columns, bias);
        EXPECT_TRUE(close(out, product + bias.to(at::kDouble), GetParam(), k + 2));
        EXPECT_FALSE(close(out, -product, GetParam(), k + 2)) << "what close() is to notice";
        ++compared;
      }
    }
  if (compared == 0) skip_without_packing();
}

TEST_P(PackedGemm, AcceptsRowsThatLieApart) {
  const at::Tensor b = values({64, 48}, GetParam(), 2), packed = packed_of(b);
  if (!packed.defined()) return skip_without_packing();
  const at::Tensor a = values({7, 100}, GetParam(), 1).narrow(1, 10, 64);
  at::Tensor out = at::empty({7, 48}, a.options());
  gemm_packed_out(out, a, packed);
  EXPECT_TRUE(close(out, a.to(at::kDouble).matmul(b.to(at::kDouble)), GetParam(), 66));
}

/// oneDNN accepts no such operand: the packed one is unpacked in that case.
TEST_P(PackedGemm, AcceptsOneRowThatStandsForAll) {
  const at::Tensor b = values({64, 48}, GetParam(), 2), packed = packed_of(b);
  if (!packed.defined()) return skip_without_packing();
  const at::Tensor a = values({1, 64}, GetParam(), 1).expand({7, 64});
  at::Tensor out = at::empty({7, 48}, a.options());
  gemm_packed_out(out, a, packed);
  EXPECT_TRUE(close(out, a.to(at::kDouble).matmul(b.to(at::kDouble)), GetParam(), 66));
}

TEST(PackedGemmArguments, AreChecked) {
  const auto message = [](at::Tensor out, const at::Tensor& a, const at::Tensor& packed) {
    try {
      gemm_packed_out(out, a, packed);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const at::Tensor a = at::ones({2, 64}), packed = at::ones({64 * 48});
  EXPECT_THAT(message(at::empty({3, 48}), a, packed), HasSubstr("packing b"));
  EXPECT_THAT(message(at::empty({2, 48}), a, packed.to(at::kBFloat16)), HasSubstr("packed"));
  EXPECT_THAT(message(at::empty({2, 48}), a, at::ones({64, 48})), HasSubstr("packed"));
  EXPECT_EQ(packed_elements(at::TensorOptions(at::kDouble), 64, 48), 0);
  EXPECT_EQ(packed_elements(at::TensorOptions(at::kFloat), 0, 48), 0);
}

}  // namespace packed_gemm_test
}  // namespace accrue::kernels
