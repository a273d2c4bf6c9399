#include "accrue/kernels/attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "accrue/core/error.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace {

using accrue::testing::close;

at::Tensor packed(std::int64_t batch, std::int64_t length, std::int64_t channels,
                  at::ScalarType dtype, std::uint64_t seed = 1, double scale = 1) {
  at::manual_seed(seed);
  return (at::randn({batch, length, 3 * channels}, at::kDouble) * scale).to(dtype);
}

struct Result {
  at::Tensor out, grad;
};

/// Softmax written out, in double.
at::Tensor written_out(const at::Tensor& qkv, std::int64_t heads, bool masked = true) {
  const std::int64_t batch = qkv.size(0), length = qkv.size(1), channels = qkv.size(2) / 3;
  const at::Tensor parts =
      qkv.view({batch, length, 3, heads, channels / heads}).permute({2, 0, 3, 1, 4});
  at::Tensor scores = at::matmul(parts[0], parts[1].transpose(-2, -1)) /
                      std::sqrt(static_cast<double>(channels / heads));
  if (masked)
    scores = scores.masked_fill(at::ones({length, length}, at::kBool).triu(1),
                                -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), parts[2])
      .transpose(1, 2)
      .reshape({batch, length, channels});
}

template <class Attention>
Result run(const at::Tensor& qkv, const at::Tensor& grad, Attention attention) {
  const at::Tensor leaf = qkv.detach().clone().requires_grad_(true);
  const at::Tensor out = attention(leaf);
  out.backward(grad.to(out.scalar_type()));
  return {out.detach(), leaf.grad()};
}

Result ours(const at::Tensor& qkv, const at::Tensor& grad, std::int64_t heads) {
  return run(qkv, grad, [&](const at::Tensor& leaf) { return causal_attention(leaf, heads); });
}

Result reference(const at::Tensor& qkv, const at::Tensor& grad, std::int64_t heads,
                 bool masked = true) {
  return run(qkv.to(at::kDouble), grad,
             [&](const at::Tensor& leaf) { return written_out(leaf, heads, masked); });
}

class Attention : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(All, Attention, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(Attention, MatchesSoftmaxWrittenOut) {
  const std::int64_t heads = 3;
  for (const std::int64_t length : {1, 7, 64, 65, 129, 300})
    for (const std::int64_t width : {1, 5, 16, 33, 64}) {
      SCOPED_TRACE(::testing::Message() << "T " << length << ", D " << width);
      const at::Tensor qkv = packed(2, length, heads * width, GetParam());
      const at::Tensor grad =
          packed(2, length, heads * width, GetParam(), 2).narrow(2, 0, heads * width);
      const Result actual = ours(qkv, grad, heads), expected = reference(qkv, grad, heads);
      EXPECT_TRUE(close(actual.out, expected.out, GetParam(), length + width));
      EXPECT_TRUE(close(actual.grad, expected.grad, GetParam(), length + width));
    }
}

TEST(CausalAttention, MatchesScaledDotProductAttention) {
  const std::int64_t batch = 2, heads = 2, length = 130, width = 24, channels = heads * width;
  const at::Tensor qkv = packed(batch, length, channels, at::kDouble);
  const at::Tensor parts = qkv.view({batch, length, 3, heads, width}).permute({2, 0, 3, 1, 4});
  const at::Tensor expected =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
  const at::Tensor actual = causal_attention(qkv, heads).view({batch, length, heads, width});
  EXPECT_TRUE(close(actual.transpose(1, 2), expected, at::kDouble, length));
}

TEST(CausalAttention, ComparatorSeesAMissingMask) {
  const at::Tensor qkv = packed(1, 65, 32, at::kBFloat16);
  const at::Tensor grad = at::ones({1, 65, 32}, at::kBFloat16);
  const Result actual = ours(qkv, grad, 2), wrong = reference(qkv, grad, 2, /*masked=*/false);
  EXPECT_FALSE(close(actual.out, wrong.out, at::kBFloat16, 97));
  EXPECT_FALSE(close(actual.grad, wrong.grad, at::kBFloat16, 97));
}

TEST(CausalAttention, ReadsUnalignedAndStridedInput) {
  const at::Tensor wide = packed(2, 40, 50, at::kFloat);
  const at::Tensor slice = wide.narrow(2, 1, 3 * 46);
  const at::Tensor grad = at::ones({2, 40, 46});
  const Result actual = ours(slice, grad, 2);
  const at::Tensor flat = at::empty({slice.numel() + 1});
  const at::Tensor unaligned = flat.narrow(0, 1, slice.numel()).view_as(slice).copy_(slice);
  EXPECT_TRUE(at::equal(causal_attention(unaligned, 2), actual.out));
  EXPECT_TRUE(at::equal(causal_attention(slice, 2), actual.out));
}

TEST(CausalAttention, SurvivesLargeScores) {
  const at::Tensor qkv = packed(1, 70, 32, at::kFloat, 3, 30);
  const at::Tensor grad = at::ones({1, 70, 32});
  const Result actual = ours(qkv, grad, 2), expected = reference(qkv, grad, 2);
  // Scores of up to largest^2 * sqrt(width) are rounded before the exponential.
  const double largest = qkv.abs().max().item<double>();
  const double bound = accrue::testing::tolerance(at::kFloat).bound(1) * largest * largest * 4;
  EXPECT_LE(accrue::testing::relative_error(actual.out, expected.out), bound);
  EXPECT_LE(accrue::testing::relative_error(actual.grad, expected.grad), bound);
}

TEST(CausalAttention, DoesNotLookAhead) {
  at::Tensor qkv = packed(1, 100, 32, at::kFloat);
  const at::Tensor before = causal_attention(qkv, 2);
  qkv.narrow(1, 70, 30).fill_(1e3);
  const at::Tensor after = causal_attention(qkv, 2);
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 70), after.narrow(1, 0, 70)));
  EXPECT_FALSE(at::equal(before.narrow(1, 70, 30), after.narrow(1, 70, 30)));
}

TEST(CausalAttention, ShowsNaNInQueriesKeysAndValues) {
  for (const std::int64_t part : {0, 1, 2}) {
    at::Tensor qkv = packed(1, 20, 16, at::kFloat);
    qkv[0][3][part * 16] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(causal_attention(qkv, 1)[0][3].isnan().any().item<bool>()) << part;
  }
}

TEST(CausalAttention, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor qkv = packed(3, 90, 32, at::kFloat), grad = at::ones({3, 90, 32});
  const int threads = at::get_num_threads();
  const Result together = ours(qkv, grad, 2);
  at::set_num_threads(1);
  const Result alone = ours(qkv, grad, 2);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone.out, together.out));
  EXPECT_TRUE(at::equal(alone.grad, together.grad));
}

TEST(CausalAttention, RefusesAWidthThatTheHeadsDoNotDivide) {
  EXPECT_THROW(causal_attention(at::ones({1, 2, 3 * 10}), 3), Error);
  EXPECT_THROW(causal_attention(at::ones({2, 30}), 1), Error);
  EXPECT_THROW(causal_attention(at::ones({1, 2, 30}), 0), Error);
}

}  // namespace
}  // namespace accrue::kernels
