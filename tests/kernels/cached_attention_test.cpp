#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "accrue/core/error.h"
#include "accrue/kernels/key_value_cache.h"
#include "kernels/grouped_attention_reference.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace cached_attention_test {

using namespace accrue::testing;
using ::testing::HasSubstr;

const ForwardContext evaluating{.training = false};

class CachedAttention : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }

  KeyValueCache cache_for(const GroupedAttentionOptions& options, std::int64_t width,
                          std::int64_t positions) const {
    return KeyValueCache({.kv_heads = options.kv_heads,
                          .width = width,
                          .most_positions = positions,
                          .window = options.window,
                          .dtype = dtype()});
  }

  /// The positions of `input` in parts of these sizes.
  static at::Tensor in_parts(const GroupedInput& input, const std::vector<std::int64_t>& parts,
                             const GroupedAttentionOptions& options, KeyValueCache& cache) {
    std::vector<at::Tensor> outs;
    for (const std::int64_t size : parts) {
      const std::int64_t first = cache.positions();
      const GroupedInput part =
          input.each([&](const at::Tensor& of) { return of.narrow(1, first, size); });
      outs.push_back(cached_attention(part.q, part.k, part.v, options, cache));
    }
    return at::cat(outs, 1);
  }
};
INSTANTIATE_TEST_SUITE_P(All, CachedAttention,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

std::vector<std::int64_t> random_parts(std::int64_t length, std::mt19937& random) {
  std::vector<std::int64_t> parts;
  for (std::int64_t left = length; left > 0; left -= parts.back()) {
    const std::int64_t most = random() % 2 == 0 ? 1 : left;
    parts.push_back(1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most)));
  }
  return parts;
}

TEST_P(CachedAttention, OfAnyPartsIsThatOfTheWhole) {
  std::mt19937 random(4);
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {4, 4}, {7, 1}, {12, 2}})
    for (const std::int64_t width : {5, 16, 64})
      for (const std::int64_t window : {0, 1, 9})
        for (const double soft_cap : {0.0, 1.5}) {
          SCOPED_TRACE(::testing::Message() << heads << "/" << kv_heads << " heads, W " << width
                                            << ", window " << window << ", cap " << soft_cap);
          const std::int64_t length = 150;
          const GroupedAttentionOptions options{
              .heads = heads, .kv_heads = kv_heads, .window = window, .soft_cap = soft_cap};
          const GroupedInput input = grouped_projections(1, length, options, width, dtype());
          const at::Tensor expected = grouped_written_out(
              input.each([](const at::Tensor& of) { return of.to(at::kDouble); }), options,
              evaluating);
          KeyValueCache cache = cache_for(options, width, length);
          const at::Tensor actual = in_parts(input, random_parts(length, random), options, cache);
          EXPECT_TRUE(close(actual, expected, dtype(), length + width));
          EXPECT_EQ(cache.positions(), length);
        }
}

TEST_P(CachedAttention, WithAnotherKeyDiffers) {
  const GroupedAttentionOptions options{.heads = 2, .kv_heads = 1};
  const GroupedInput input = grouped_projections(1, 20, options, 16, dtype());
  KeyValueCache cache = cache_for(options, 16, 20);
  GroupedInput other = input.each([](const at::Tensor& of) { return of.clone(); });
  other.v.select(1, 3).add_(2);
  const at::Tensor expected = grouped_written_out(
      input.each([](const at::Tensor& of) { return of.to(at::kDouble); }), options, evaluating);
  EXPECT_FALSE(close(in_parts(other, {19, 1}, options, cache), expected, dtype(), 36));
}

TEST_P(CachedAttention, GoesBackToAnEarlierPosition) {
  for (const std::int64_t window : {0, 9}) {
    const GroupedAttentionOptions options{.heads = 2, .kv_heads = 2, .window = window};
    const GroupedInput input = grouped_projections(1, 40, options, 8, dtype());
    KeyValueCache cache = cache_for(options, 8, 40);
    const at::Tensor expected = in_parts(input, {38, 1, 1}, options, cache);
    ASSERT_TRUE(cache.can_go_back_to(38));
    cache.go_back_to(38);
    EXPECT_EQ(cache.positions(), 38);
    const at::Tensor again = in_parts(input, {1, 1}, options, cache);
    EXPECT_TRUE(at::equal(again, expected.narrow(1, 38, 2)));
    cache.go_back_to(0);
    EXPECT_TRUE(at::equal(in_parts(input, {38, 1, 1}, options, cache), expected));
  }
}

TEST_P(CachedAttention, HoldsNoMoreThanAWindowNeeds) {
  const GroupedAttentionOptions options{.heads = 1, .kv_heads = 1, .window = 100};
  KeyValueCache cache = cache_for(options, 8, 5000);
  const GroupedInput input = grouped_projections(1, 1000, options, 8, dtype());
  in_parts(input, std::vector<std::int64_t>(1000, 1), options, cache);
  EXPECT_LE(cache.keys().size(1), 200);
  EXPECT_FALSE(cache.can_go_back_to(500));
  EXPECT_TRUE(cache.can_go_back_to(1000));
}

TEST_P(CachedAttention, HasTheSameBitsForAnyNumberOfThreads) {
  const GroupedAttentionOptions options{.heads = 6, .kv_heads = 2};
  const GroupedInput input = grouped_projections(1, 300, options, 64, dtype());
  const auto run = [&] {
    KeyValueCache cache = cache_for(options, 64, 300);
    return in_parts(input, {290, 9, 1}, options, cache).narrow(1, 290, 10);
  };
  const at::Tensor shared = run();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(run(), shared));
  at::set_num_threads(threads);
}

TEST(KeyValueCacheRefuses, WhatDoesNotFit) {
  const GroupedAttentionOptions options{.heads = 4, .kv_heads = 2};
  KeyValueCache cache({.kv_heads = 2, .width = 8, .most_positions = 4});
  const auto refusal = [&](const at::Tensor& q, const at::Tensor& k,
                           const GroupedAttentionOptions& with) {
    try {
      cached_attention(q, k, k, with, cache);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string("none");
  };
  const at::Tensor q = at::ones({1, 1, 32}), k = at::ones({1, 1, 16});
  EXPECT_THAT(refusal(q, k, {.heads = 4, .kv_heads = 4}), HasSubstr("heads"));
  EXPECT_THAT(refusal(q, k, {.heads = 4, .kv_heads = 2, .window = 3}), HasSubstr("window"));
  EXPECT_THAT(refusal(k, k, options), HasSubstr("q "));
  EXPECT_THAT(refusal(q, q, options), HasSubstr("[1, T, 16]"));
  EXPECT_THAT(refusal(q.to(at::kDouble), k, options), HasSubstr("q "));
  EXPECT_THAT(refusal(at::ones({1, 5, 32}), at::ones({1, 5, 16}), options),
              HasSubstr("at most 4 positions"));
}

}  // namespace cached_attention_test
}  // namespace accrue::kernels
