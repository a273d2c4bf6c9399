#include "kernels/gemm/gemm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <thread>

#include "accrue/core/error.h"
#include "kernels/gemm/aten_gemm.h"
#include "kernels/gemm/widened_gemm.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace gemm_test {

using testing::close;
using ::testing::HasSubstr;

struct Dtypes {
  at::ScalarType operands, out;
};

at::Tensor values(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed) {
  return testing::leaf(sizes, dtype, seed).detach();
}

at::Tensor in_double(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

class Gemm : public ::testing::TestWithParam<Dtypes> {
 protected:
  at::ScalarType operands() const { return GetParam().operands; }
  at::ScalarType out() const { return GetParam().out; }

  /// The product, the product added to something, and the ATen side of both, against double.
  void check(const at::Tensor& a, const at::Tensor& b, const at::Tensor& place) const {
    const at::Tensor product = at::matmul(in_double(a), in_double(b));
    const std::int64_t terms = a.size(-1) + 2;
    const at::Tensor before = values(place.sizes(), out(), 99);
    for (const bool accumulate : {false, true}) {
      const at::Tensor expected = accumulate ? product + in_double(before) : product;
      at::Tensor result = place;
      result.copy_(before);
      gemm_out(result, a, b, accumulate);
      EXPECT_TRUE(close(result, expected, out(), terms)) << "accumulate " << accumulate;
      result.copy_(before);
      aten::multiply(result, a, b, {}, accumulate);
      EXPECT_TRUE(close(result, expected, out(), terms)) << "ATen, accumulate " << accumulate;
      if (operands() != at::kBFloat16) continue;
      result.copy_(before);
      widened::multiply(result, a, b, {}, accumulate, aten::multiply);
      EXPECT_TRUE(close(result, expected, out(), terms)) << "widened, accumulate " << accumulate;
    }
  }
  at::Tensor place(at::IntArrayRef sizes) const { return at::empty(sizes, out()); }
};
INSTANTIATE_TEST_SUITE_P(All, Gemm,
                         ::testing::Values(Dtypes{at::kFloat, at::kFloat},
                                           Dtypes{at::kDouble, at::kDouble},
                                           Dtypes{at::kBFloat16, at::kBFloat16},
                                           Dtypes{at::kBFloat16, at::kFloat}),
                         [](const auto& param) {
                           return std::string(c10::toString(param.param.operands)) + "To" +
                                  c10::toString(param.param.out);
                         });

TEST_P(Gemm, MultipliesAnyShapeAndTransposition) {
  for (const std::int64_t m : {1, 5, 64})
    for (const std::int64_t k : {1, 3, 96})
      for (const std::int64_t n : {1, 7, 48}) {
        SCOPED_TRACE(::testing::Message() << m << " x " << k << " x " << n);
        const at::Tensor a = values({m, k}, operands(), 1), b = values({k, n}, operands(), 2);
        const at::Tensor a_columns = a.t().contiguous().t(), b_columns = b.t().contiguous().t();
        check(a, b, place({m, n}));
        check(a_columns, b, place({m, n}));
        check(a, b_columns, place({m, n}));
        check(a_columns, b_columns, place({m, n}));
      }
}

TEST_P(Gemm, WritesIntoStridedPlacesAndLeavesTheRestAlone) {
  const at::Tensor a = values({6, 9}, operands(), 1), b = values({9, 5}, operands(), 2);
  const at::Tensor whole = at::full({6, 20}, 7, out());
  check(a, b, whole.narrow(1, 8, 5));
  EXPECT_TRUE((whole.narrow(1, 0, 8) == 7).all().item<bool>());
  EXPECT_TRUE((whole.narrow(1, 13, 7) == 7).all().item<bool>());
}

TEST_P(Gemm, ReadsSlicesOfPackedProjections) {
  const std::int64_t batch = 2, length = 5, heads = 3, width = 4;
  const at::Tensor qkv = values({batch, length, 3, heads, width}, operands(), 1);
  const auto part = [&](std::int64_t which) { return qkv.select(2, which).transpose(1, 2); };
  check(part(0), part(1).transpose(2, 3), place({batch, heads, length, length}));
  const at::Tensor weights = values({batch, heads, length, length}, operands(), 2);
  check(weights, part(2), place({batch, length, heads, width}).transpose(1, 2));
  check(weights[0], part(2)[1], place({heads, length, width}));
}

TEST_P(Gemm, ReadsOperandsWithoutAUnitStride) {
  const at::Tensor a = values({6, 18}, operands(), 1).slice(1, 0, 18, 2);
  const at::Tensor b = values({5}, operands(), 2).expand({9, 5});
  check(a, b, place({6, 5}));
}

TEST_P(Gemm, SumsOverSeveralBlocksOfEachDimension) {
  constexpr std::int64_t m = widened::block + 1, k = widened::block + 2, n = widened::block + 3;
  const at::Tensor a = values({m, k}, operands(), 1), b = values({n, k}, operands(), 2).t();
  check(a, b, place({m, n}));
}

TEST_P(Gemm, AddsTheBias) {
  for (const std::int64_t m : {1, 6})
    for (const at::ScalarType bias_dtype : {operands(), at::kFloat}) {
      const at::Tensor a = values({m, 9}, operands(), 1), b = values({9, 5}, operands(), 2),
                       bias = values({5}, bias_dtype, 3);
      const at::Tensor product = at::matmul(in_double(a), in_double(b));
      at::Tensor result = place({m, 5});
      gemm_bias_out(result, a, b, bias);
      EXPECT_TRUE(close(result, product + in_double(bias), out(), 11));
      EXPECT_FALSE(close(result, product, out(), 11));
      aten::multiply(result, a, b, bias, false);
      EXPECT_TRUE(close(result, product + in_double(bias), out(), 11));
      if (operands() != at::kBFloat16) continue;
      widened::multiply(result, a, b, bias, false, aten::multiply);
      EXPECT_TRUE(close(result, product + in_double(bias), out(), 11));
    }
}

TEST_P(Gemm, TakesEmptyMatrices) {
  at::Tensor nothing = place({0, 5});
  gemm_out(nothing, values({0, 9}, operands(), 1), values({9, 5}, operands(), 2), true);
  at::Tensor result = at::full({2, 3}, 7, out());
  const at::Tensor a = values({2, 0}, operands(), 1), b = values({0, 3}, operands(), 2);
  gemm_out(result, a, b, true);
  EXPECT_TRUE((result == 7).all().item<bool>());
  gemm_bias_out(result, a, b, at::full({3}, 2, at::kFloat));
  EXPECT_TRUE((result == 2).all().item<bool>());
  gemm_out(result, a, b);
  EXPECT_TRUE((result == 0).all().item<bool>());
}

TEST(GemmComparator, TellsBfloat16SumsFromFloatOnes) {
  const at::Tensor a = values({8, 200}, at::kBFloat16, 1), b = values({200, 8}, at::kBFloat16, 2);
  const at::Tensor expected = at::matmul(in_double(a), in_double(b));
  at::Tensor coarse = at::empty({8, 8}, at::kBFloat16), fine = at::empty({8, 8}, at::kFloat);
  gemm_out(coarse, a, b);
  gemm_out(fine, a, b);
  EXPECT_TRUE(close(fine, expected, at::kFloat, 200));
  EXPECT_FALSE(close(coarse, expected, at::kFloat, 200));
}

TEST(GemmArguments, AreChecked) {
  const auto message = [](const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
    at::Tensor result = out;
    try {
      gemm_out(result, a, b);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 4}), out = at::ones({2, 4});
  EXPECT_EQ(message(out, a, b), "no error");
  EXPECT_THAT(message(out, a, b.t()), HasSubstr("a [..., M, K]"));
  EXPECT_THAT(message(out, a[0], b), HasSubstr("a [..., M, K]"));
  EXPECT_THAT(message(out, a.to(at::kDouble), b), HasSubstr("one dtype"));
  EXPECT_THAT(message(out.to(at::kBFloat16), a, b), HasSubstr("one dtype"));
  at::Tensor result = out.clone();
  EXPECT_THROW(gemm_bias_out(result, a, b, at::ones({3})), Error);
  EXPECT_THROW(gemm_bias_out(result, a, b, {}), Error);
}

TEST(GemmThreads, MayMultiplyAtOnce) {
  const at::Tensor a = values({16, 24}, at::kFloat, 1), b = values({24, 8}, at::kFloat, 2);
  const at::Tensor expected = at::matmul(in_double(a), in_double(b));
  std::vector<at::Tensor> results(4);
  std::vector<std::thread> threads;
  for (at::Tensor& result : results)
    threads.emplace_back([&] {
      for (std::int64_t rows = 1; rows <= 16; ++rows) {
        result = at::empty({rows, 8});
        gemm_out(result, a.narrow(0, 0, rows), b);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const at::Tensor& result : results) EXPECT_TRUE(close(result, expected, at::kFloat, 24));
}

TEST(GemmBackend, SaysWhatItIs) {
  EXPECT_THAT(gemm_backend(), ::testing::AnyOf(HasSubstr("oneDNN"), HasSubstr("ATen")));
}

}  // namespace gemm_test
}  // namespace accrue::kernels
