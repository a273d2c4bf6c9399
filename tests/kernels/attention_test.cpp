#include "accrue/kernels/attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "accrue/core/error.h"
#include "kernels/attention/attention_bf16.h"
#include "kernels/attention_reference.h"
#include "kernels/gemm/onednn_gemm.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace attention_test {

using namespace accrue::testing;

const ForwardContext evaluating{.training = false};

at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads) {
  return attention(qkv, heads, {}, evaluating);
}

AttentionResult causal(const at::Tensor& qkv, const at::Tensor& grad, std::int64_t heads) {
  return ours(qkv, grad, heads, {}, evaluating);
}

class Attention : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(All, Attention, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(Attention, MatchesSoftmaxWrittenOut) {
  const std::int64_t heads = 3;
  for (const bool is_causal : {true, false})
    for (const std::int64_t length : {1, 7, 64, 65, 129, 300})
      for (const std::int64_t width : {1, 5, 16, 33, 64}) {
        SCOPED_TRACE(::testing::Message()
                     << "T " << length << ", D " << width << (is_causal ? ", causal" : ""));
        const at::Tensor qkv = packed_projections(2, length, heads * width, GetParam());
        const at::Tensor grad =
            packed_projections(2, length, heads * width, GetParam(), 2).narrow(2, 0, heads * width);
        const AttentionOptions options{.causal = is_causal};
        const AttentionResult actual = ours(qkv, grad, heads, options, evaluating),
                              expected = reference(qkv, grad, heads, options, evaluating);
        EXPECT_TRUE(close(actual.out, expected.out, GetParam(), length + width));
        EXPECT_TRUE(close(actual.grad, expected.grad, GetParam(), length + width));
      }
}

TEST(BidirectionalAttention, MatchesScaledDotProductAttention) {
  const std::int64_t batch = 2, heads = 2, length = 130, width = 24, channels = heads * width;
  const at::Tensor qkv = packed_projections(batch, length, channels, at::kDouble);
  const at::Tensor parts = qkv.view({batch, length, 3, heads, width}).permute({2, 0, 3, 1, 4});
  const at::Tensor expected = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
  const at::Tensor actual =
      attention(qkv, heads, {.causal = false}, evaluating).view({batch, length, heads, width});
  EXPECT_TRUE(close(actual.transpose(1, 2), expected, at::kDouble, length));
}

TEST(CausalAttention, MatchesScaledDotProductAttention) {
  const std::int64_t batch = 2, heads = 2, length = 130, width = 24, channels = heads * width;
  const at::Tensor qkv = packed_projections(batch, length, channels, at::kDouble);
  const at::Tensor parts = qkv.view({batch, length, 3, heads, width}).permute({2, 0, 3, 1, 4});
  const at::Tensor expected =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
  const at::Tensor actual = causal_attention(qkv, heads).view({batch, length, heads, width});
  EXPECT_TRUE(close(actual.transpose(1, 2), expected, at::kDouble, length));
}

TEST(CausalAttention, ComparatorSeesAMissingMask) {
  const at::Tensor qkv = packed_projections(1, 65, 32, at::kBFloat16);
  const at::Tensor grad = at::ones({1, 65, 32}, at::kBFloat16);
  const AttentionResult actual = causal(qkv, grad, 2),
                        wrong = reference(qkv, grad, 2, {.causal = false}, evaluating);
  EXPECT_FALSE(close(actual.out, wrong.out, at::kBFloat16, 97));
  EXPECT_FALSE(close(actual.grad, wrong.grad, at::kBFloat16, 97));
}

/// |actual - expected| / |expected| in the Frobenius norm, where rounding errors average out.
double mean_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor e = expected.to(at::kDouble);
  return ((actual.to(at::kDouble) - e).norm() / e.norm()).item<double>();
}

/// bf16 attention rounds probabilities, score gradients and results, each by at most 2 u and by
/// less than u on average; larger errors would mean that sums are rounded too.
TEST(BFloat16Attention, RoundsOnlyOperandsAndResults) {
  const double bound = 3 * accrue::testing::tolerance(at::kBFloat16).unit_roundoff;
  for (const bool is_causal : {true, false})
    for (const std::int64_t length : {31, 64, 200, 600}) {
      const at::Tensor qkv = packed_projections(1, length, 2 * 64, at::kBFloat16);
      const at::Tensor grad =
          packed_projections(1, length, 2 * 64, at::kBFloat16, 2).narrow(2, 0, 2 * 64);
      const AttentionOptions options{.causal = is_causal};
      const AttentionResult actual = ours(qkv, grad, 2, options, evaluating),
                            expected = reference(qkv, grad, 2, options, evaluating);
      EXPECT_LE(mean_error(actual.out, expected.out), bound) << length;
      EXPECT_LE(mean_error(actual.grad, expected.grad), bound) << length;
      // Two exchanged keys, or values, are detected.
      const at::Tensor order = at::arange(length);
      order[8] = 9;
      order[9] = 8;
      at::Tensor swapped = qkv.clone();
      swapped.narrow(2, 128, 128).copy_(qkv.narrow(2, 128, 128).index_select(1, order));
      const AttentionResult wrong = ours(swapped, grad, 2, options, evaluating);
      EXPECT_GT(mean_error(wrong.out, expected.out), bound) << length;
      EXPECT_GT(mean_error(wrong.grad, expected.grad), bound) << length;
    }
}

class WithoutOneDnn {
 public:
  WithoutOneDnn() : before_(at::globalContext().userEnabledMkldnn()) {
    at::globalContext().setUserEnabledMkldnn(false);
  }
  ~WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(before_); }
  WithoutOneDnn(const WithoutOneDnn&) = delete;
  WithoutOneDnn& operator=(const WithoutOneDnn&) = delete;

 private:
  bool before_;
};

/// libtorch refuses its products of bf16 in that case.
TEST(BFloat16Attention, WorksWhereOneDnnIsSwitchedOffBeforeOrAfterForward) {
  const at::Tensor qkv = packed_projections(1, 70, 32, at::kBFloat16);
  const at::Tensor grad = packed_projections(1, 70, 32, at::kBFloat16, 2).narrow(2, 0, 32);
  const AttentionResult expected = reference(qkv, grad, 2, {}, evaluating);
  const auto expect_same = [&](const AttentionResult& actual) {
    EXPECT_TRUE(close(actual.out, expected.out, at::kBFloat16, 70 + 16));
    EXPECT_TRUE(close(actual.grad, expected.grad, at::kBFloat16, 70 + 16));
  };
  const at::Tensor leaf = qkv.clone().requires_grad_(true);
  const at::Tensor out = causal_attention(leaf, 2);
  EXPECT_EQ(bf16_attention::available(), onednn::multiplies_bf16());
  const WithoutOneDnn off;
  EXPECT_FALSE(bf16_attention::available());
  out.backward(grad);
  expect_same({out.detach(), leaf.grad()});
  expect_same(causal(qkv, grad, 2));
}

class CausalAttentionIn : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(All, CausalAttentionIn, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(CausalAttentionIn, ReadsUnalignedAndStridedInput) {
  const at::Tensor wide = packed_projections(2, 40, 50, GetParam());
  const at::Tensor slice = wide.narrow(2, 1, 3 * 46);
  const at::Tensor grad = at::ones({2, 40, 46});
  const AttentionResult actual = causal(slice, grad, 2);
  const at::Tensor flat = at::empty({slice.numel() + 1}, GetParam());
  const at::Tensor unaligned = flat.narrow(0, 1, slice.numel()).view_as(slice).copy_(slice);
  EXPECT_TRUE(at::equal(causal_attention(unaligned, 2), actual.out));
  EXPECT_TRUE(at::equal(causal_attention(slice, 2), actual.out));
}

TEST_P(CausalAttentionIn, SurvivesLargeScores) {
  const at::Tensor qkv = packed_projections(1, 70, 32, GetParam(), 3, 30);
  const at::Tensor grad = at::ones({1, 70, 32});
  const AttentionResult actual = causal(qkv, grad, 2),
                        expected = reference(qkv, grad, 2, {}, evaluating);
  // Scores of up to largest^2 * sqrt(width) are rounded to fp32 before the exponential.
  const double largest = qkv.abs().max().item<double>();
  double bound = accrue::testing::tolerance(at::kFloat).bound(1) * largest * largest * 4;
  if (GetParam() == at::kBFloat16) bound += accrue::testing::tolerance(GetParam()).bound(70 + 16);
  EXPECT_TRUE(accrue::testing::within(actual.out, expected.out, bound));
  EXPECT_TRUE(accrue::testing::within(actual.grad, expected.grad, bound));
}

TEST_P(CausalAttentionIn, DoesNotLookAhead) {
  at::Tensor qkv = packed_projections(1, 100, 32, GetParam());
  const at::Tensor before = causal_attention(qkv, 2);
  qkv.narrow(1, 70, 30).fill_(1e3);
  const at::Tensor after = causal_attention(qkv, 2);
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 70), after.narrow(1, 0, 70)));
  EXPECT_FALSE(at::equal(before.narrow(1, 70, 30), after.narrow(1, 70, 30)));
}

TEST_P(CausalAttentionIn, ShowsNaNInQueriesKeysAndValues) {
  for (const std::int64_t part : {0, 1, 2}) {
    at::Tensor qkv = packed_projections(1, 20, 16, GetParam());
    qkv[0][3][part * 16] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(causal_attention(qkv, 1)[0][3].isnan().any().item<bool>()) << part;
  }
}

TEST_P(CausalAttentionIn, ShowsNaNInGradients) {
  const at::Tensor qkv = packed_projections(1, 20, 16, GetParam());
  at::Tensor grad = at::ones({1, 20, 16});
  grad[0][3][5] = std::numeric_limits<double>::quiet_NaN();
  const AttentionResult actual = causal(qkv, grad, 1);
  for (const std::int64_t part : {0, 1, 2})
    EXPECT_TRUE(actual.grad[0][3].narrow(0, part * 16, 16).isnan().any().item<bool>()) << part;
  EXPECT_FALSE(actual.out.isnan().any().item<bool>());
}

TEST_P(CausalAttentionIn, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor qkv = packed_projections(3, 90, 32, GetParam()), grad = at::ones({3, 90, 32});
  const int threads = at::get_num_threads();
  const AttentionResult together = causal(qkv, grad, 2);
  at::set_num_threads(1);
  const AttentionResult alone = causal(qkv, grad, 2);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone.out, together.out));
  EXPECT_TRUE(at::equal(alone.grad, together.grad));
}

TEST(CausalAttention, RefusesAWidthThatTheHeadsDoNotDivide) {
  EXPECT_THROW(causal_attention(at::ones({1, 2, 3 * 10}), 3), Error);
  EXPECT_THROW(causal_attention(at::ones({2, 30}), 1), Error);
  EXPECT_THROW(causal_attention(at::ones({1, 2, 30}), 0), Error);
}

}  // namespace attention_test
}  // namespace accrue::kernels
