#include "kernels/gemm/matvec.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernels/gemm/gemm.h"
#include "kernels/gradients.h"
#include "support/kernels.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace matvec_test {

using testing::by_aten;
using testing::close;

struct RowDtypes {
  at::ScalarType operands, out;
};

at::Tensor drawn(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed) {
  return testing::leaf(sizes, dtype, seed).detach();
}

class Matvec : public ::testing::TestWithParam<RowDtypes> {
 protected:
  at::ScalarType operands() const { return GetParam().operands; }
  at::ScalarType out() const { return GetParam().out; }
  at::ScalarType sums() const { return operands() == at::kDouble ? at::kDouble : at::kFloat; }

  at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    at::Tensor result = at::empty({1, weight.size(0)}, at::TensorOptions().dtype(out()));
    EXPECT_TRUE(matvec::fits(result, x, weight.t(), bias));
    if (bias.defined())
      gemm_bias_out(result, x, weight.t(), bias);
    else
      gemm_out(result, x, weight.t());
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Matvec,
                         ::testing::Values(RowDtypes{at::kFloat, at::kFloat},
                                           RowDtypes{at::kDouble, at::kDouble},
                                           RowDtypes{at::kBFloat16, at::kBFloat16},
                                           RowDtypes{at::kBFloat16, at::kFloat}),
                         [](const auto& param) {
                           return std::string(c10::toString(param.param.operands)) + "_" +
                                  c10::toString(param.param.out);
                         });

TEST_P(Matvec, IsTheProductInDouble) {
  for (const std::int64_t terms : {1, 2, 15, 16, 31, 33, 64, 200})
    for (const std::int64_t columns : {1, 3, 4, 65, 130})
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(::testing::Message() << terms << " terms, " << columns << " columns");
        const at::Tensor x = drawn({1, terms}, operands(), 1),
                         weight = drawn({columns, terms}, operands(), 2),
                         bias = biased ? drawn({columns}, sums(), 3) : at::Tensor();
        at::Tensor expected = at::matmul(x.to(at::kDouble), weight.to(at::kDouble).t());
        if (biased) expected = expected + bias.to(at::kDouble);
        EXPECT_TRUE(close(product(x, weight, bias), expected, out(), terms + 1));
      }
}

TEST_P(Matvec, ReadsRowsThatLieApart) {
  const at::Tensor x = drawn({1, 40}, operands(), 1),
                   weight = drawn({30, 50}, operands(), 2).narrow(1, 3, 40);
  const at::Tensor expected = at::matmul(x.to(at::kDouble), weight.to(at::kDouble).t());
  EXPECT_TRUE(close(product(x, weight, {}), expected, out(), 40));
}

TEST_P(Matvec, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = drawn({1, 700}, operands(), 1), weight = drawn({333, 700}, operands(), 2);
  const at::Tensor shared = product(x, weight, {});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = product(x, weight, {});
  at::set_num_threads(threads);
  // ATen's libraries do not guarantee this.
  EXPECT_TRUE(by_aten() ? close(alone, shared, out(), 2 * 700) : at::equal(alone, shared));
}

TEST_P(Matvec, ShowsATermThatIsLeftOut) {
  const at::Tensor x = drawn({1, 33}, operands(), 1), weight = drawn({20, 33}, operands(), 2);
  const at::Tensor expected =
      at::matmul(x.narrow(1, 0, 32).to(at::kDouble), weight.narrow(1, 0, 32).to(at::kDouble).t());
  EXPECT_FALSE(close(product(x, weight, {}), expected, out(), 33));
}

TEST(MatvecShapes, ThatAreOthersAreLeftToMatrixProducts) {
  const auto fits = [](const at::Tensor& a, const at::Tensor& b) {
    return matvec::fits(at::empty({a.size(0), b.size(1)}, a.options()), a, b, {});
  };
  EXPECT_TRUE(fits(at::ones({1, 8}), at::ones({4, 8}).t()));
  EXPECT_FALSE(fits(at::ones({2, 8}), at::ones({4, 8}).t()));
  EXPECT_FALSE(fits(at::ones({1, 8}), at::ones({8, 4})));
}

}  // namespace matvec_test
}  // namespace accrue::kernels
