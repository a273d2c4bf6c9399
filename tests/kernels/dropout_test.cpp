#include "accrue/kernels/dropout.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "support/reference_mask.h"

namespace accrue::kernels {
namespace dropout_test {

ForwardContext context_of(std::vector<std::int64_t> samples, std::int64_t window = 3,
                          std::uint64_t seed = 1337) {
  return {.training = true, .seed = seed, .window = window, .sample_ids = std::move(samples)};
}

at::Tensor mask(std::vector<std::int64_t> samples, std::int64_t positions, std::int64_t channels,
                std::int64_t site = 0, std::int64_t window = 3, std::uint64_t seed = 1337,
                double probability = 0.3) {
  const auto rows = static_cast<std::int64_t>(samples.size());
  return dropout(at::ones({rows, positions, channels}), probability,
                 context_of(std::move(samples), window, seed), site);
}

TEST(Dropout, MaskDependsOnTheSampleAndNotOnTheSplit) {
  const at::Tensor whole = mask({10, 11, 1LL << 40, 13}, 5, 37);
  EXPECT_TRUE(at::equal(mask({10, 11}, 5, 37), whole.narrow(0, 0, 2)));
  EXPECT_TRUE(at::equal(mask({1LL << 40, 13}, 5, 37), whole.narrow(0, 2, 2)));
  EXPECT_TRUE(at::equal(mask({13, 10}, 5, 37), at::stack({whole[3], whole[0]})));
  // A shorter sequence and fewer channels see the beginning of the same mask.
  EXPECT_TRUE(
      at::equal(mask({10, 11}, 3, 33), whole.narrow(0, 0, 2).narrow(1, 0, 3).narrow(2, 0, 33)));
  // The comparison can fail: the row's place in the micro-batch must not matter, the sample must.
  EXPECT_FALSE(at::equal(mask({11, 10}, 5, 37), whole.narrow(0, 0, 2)));
}

TEST(Dropout, DiffersBetweenSitesWindowsSeedsSamplesAndPositions) {
  const at::Tensor one = mask({5}, 2, 256);
  EXPECT_FALSE(at::equal(one, mask({5}, 2, 256, 1)));
  EXPECT_FALSE(at::equal(one, mask({5}, 2, 256, 0, 4)));
  EXPECT_FALSE(at::equal(one, mask({5}, 2, 256, 0, 3, 1338)));
  EXPECT_FALSE(at::equal(one, mask({5}, 2, 256, 0, 3, 1337 + (1ULL << 32))));
  EXPECT_FALSE(at::equal(one, mask({6}, 2, 256)));
  EXPECT_FALSE(at::equal(one, mask({5 + (1LL << 32)}, 2, 256)));
  EXPECT_FALSE(at::equal(one[0][0], one[0][1]));
  EXPECT_TRUE(at::equal(one, mask({5}, 2, 256)));
}

TEST(Dropout, KeepsTheStatedShareAndTheMean) {
  for (const double probability : {0.1, 0.5, 0.9}) {
    const at::Tensor x = mask({1, 2, 3, 4}, 50, 1001, 0, 3, 1337, probability).to(at::kDouble);
    const auto count = static_cast<double>(x.numel());
    // Five standard deviations of a mean of `count` independent values.
    const double keep = 1 - probability;
    const double deviation = std::sqrt(probability / keep / count);
    EXPECT_NEAR(x.mean().item<double>(), 1, 5 * deviation);
    EXPECT_NEAR(x.square().mean().item<double>(), 1 / keep, 5 * deviation / keep);
    const at::Tensor kept = x.masked_select(x != 0);
    EXPECT_TRUE(at::allclose(kept, at::full_like(kept, 1 / keep), 1e-6));
  }
}

TEST(Dropout, NeighboursAreNotCorrelated) {
  const at::Tensor x = mask({1, 2}, 100, 1000).to(at::kDouble) - 1;
  const double variance = 0.3 / 0.7;
  const double bound = 5 * variance / std::sqrt(200.0 * 990);
  for (const std::int64_t lag : {1, 2, 3, 4, 8}) {
    const at::Tensor product = x.narrow(2, 0, 1000 - lag) * x.narrow(2, lag, 1000 - lag);
    EXPECT_NEAR(product.mean().item<double>(), 0, bound) << lag;
  }
  EXPECT_NEAR((x[0] * x[1]).mean().item<double>(), 0, 2 * bound);
}

TEST(Dropout, GradientHasTheSameMask) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    at::manual_seed(1);
    const at::Tensor x = at::randn({2, 7, 13}, at::kDouble).to(dtype).requires_grad_(true);
    const ForwardContext context = context_of({8, 9});
    const at::Tensor y = dropout(x, 0.4, context, 2);
    ASSERT_EQ(y.scalar_type(), dtype);
    y.backward(at::ones_like(y));
    const at::Tensor expected = dropout(at::ones_like(x), 0.4, context, 2).detach();
    EXPECT_TRUE(at::equal(x.grad(), expected));
    EXPECT_TRUE(at::equal(y.detach() == 0, expected == 0));
    EXPECT_TRUE(at::allclose(y.to(at::kDouble), x.to(at::kDouble) / 0.6 * (expected != 0),
                             dtype == at::kBFloat16 ? 1e-2 : 1e-6));
  }
}

TEST(Dropout, TakesRowsWithoutPositions) {
  const ForwardContext context = context_of({8, 9});
  const at::Tensor x = at::ones({2, 13});
  EXPECT_TRUE(
      at::equal(dropout(x, 0.4, context, 2), dropout(x.unsqueeze(1), 0.4, context, 2).squeeze(1)));
}

TEST(Dropout, IsTheIdentityWhenNotTrainingOrOff) {
  const at::Tensor x = at::ones({2, 3, 4});
  ForwardContext context = context_of({8, 9});
  EXPECT_TRUE(at::equal(dropout(x, 0, context, 0), x));
  context.training = false;
  EXPECT_TRUE(at::equal(dropout(x, 0.5, context, 0), x));
}

TEST(Dropout, HasTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor together = mask({1, 2, 3}, 40, 100);
  at::set_num_threads(1);
  const at::Tensor alone = mask({1, 2, 3}, 40, 100);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

TEST(Dropout, MasksAreThoseOfScalarPhilox) {
  const ForwardContext context = context_of({5, 1LL << 35}, 1LL << 34, ~0ULL);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const std::int64_t channels : {1, 15, 16, 63, 64, 65, 200})
      for (const double probability : {1e-9, 0.25, 0.5, 0.999}) {
        const accrue::testing::ReferenceMask reference(probability, context, 6);
        const at::Tensor expected = at::stack(
            {reference.of_sample(5, 3, channels), reference.of_sample(1LL << 35, 3, channels)});
        const at::Tensor x = at::full({2, 3, channels}, 1.5, dtype);
        const at::Tensor scaled = 1.5 * expected;
        EXPECT_TRUE(at::equal(dropout(x, probability, context, 6), scaled.to(dtype)))
            << c10::toString(dtype) << ", " << channels << " channels, p " << probability;
      }
  // A probability at which no word is kept.
  EXPECT_TRUE((dropout(at::ones({2, 3, 64}), 1 - 1e-12, context, 6) == 0).all().item<bool>());
}

TEST(Dropout, PackedSamplesGetTheMasksThatTheyGetApart) {
  ForwardContext packed = context_of({10, 11, 1LL << 40});
  packed.spans = {{11, 0, 0, 5}, {10, 0, 6, 9}, {1LL << 40, 1, 2, 9}};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    at::manual_seed(3);
    at::Tensor x = at::randn({2, 9, 37}, at::kDouble).to(dtype).requires_grad_(true);
    const at::Tensor y = dropout(x, 0.3, packed, 2);
    const at::Tensor grad = at::randn({2, 9, 37}, at::kDouble).to(dtype);
    y.backward(grad);
    at::Tensor uncovered = at::ones({2, 9}, at::kBool);
    for (const SampleSpan& span : packed.spans) {
      const auto cut = [&](const at::Tensor& of) {
        return of[span.row].slice(0, span.begin, span.end).unsqueeze(0);
      };
      const ForwardContext alone = context_of({span.sample_id});
      EXPECT_TRUE(at::equal(cut(y), dropout(cut(x), 0.3, alone, 2)));
      EXPECT_TRUE(at::equal(cut(x.grad()), dropout(cut(grad), 0.3, alone, 2)));
      EXPECT_FALSE(at::equal(cut(y), dropout(cut(x), 0.3, context_of({12}), 2)));
      uncovered[span.row].slice(0, span.begin, span.end).fill_(false);
    }
    EXPECT_EQ(uncovered.sum().item<std::int64_t>(), 3);
    EXPECT_TRUE((y.index({uncovered}) == 0).all().item<bool>());
    EXPECT_TRUE((x.grad().index({uncovered}) == 0).all().item<bool>());
  }
}

TEST(Dropout, RefusesBadArguments) {
  const at::Tensor x = at::ones({2, 3, 4});
  EXPECT_THROW(dropout(x, 1, context_of({8, 9}), 0), Error);
  EXPECT_THROW(dropout(x, -0.1, context_of({8, 9}), 0), Error);
  EXPECT_THROW(dropout(x, std::nan(""), context_of({8, 9}), 0), Error);
  EXPECT_THROW(dropout(x, 0.1, context_of({8}), 0), Error);
  EXPECT_THROW(dropout(at::ones({2}), 0.1, context_of({8, 9}), 0), Error);
  ForwardContext packed = context_of({8, 9});
  packed.spans = {{8, 0, 0, 2}, {9, 0, 1, 3}};
  EXPECT_THROW(dropout(x, 0.1, packed, 0), Error);
  packed.spans = {{8, 0, 0, 4}};
  EXPECT_THROW(dropout(x, 0.1, packed, 0), Error);
}

}  // namespace dropout_test
}  // namespace accrue::kernels
