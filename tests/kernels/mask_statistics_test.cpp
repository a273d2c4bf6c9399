// Dropout masks as random numbers: the share of kept elements everywhere, and whether neighbours in
// any direction of the key are correlated.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "accrue/kernels/attention.h"
#include "accrue/kernels/dropout.h"

namespace accrue::kernels {
namespace mask_statistics_test {

/// Directions of a mask [seed, window, site, sample, head, row, column]; without attention one
/// head.
constexpr const char* directions[] = {"seed", "window", "site", "sample", "head", "row", "column"};
constexpr std::int64_t seeds = 3, windows = 3, sites = 3, attention_heads = 4, size = 64;
const std::vector<std::int64_t> samples{0, 1, 2, 3};

/// The kept probabilities: equal ones, applied to values that are the unit matrix.
at::Tensor kept_by_attention(const ForwardContext& context, double probability, std::int64_t site) {
  const auto batch = static_cast<std::int64_t>(samples.size());
  at::Tensor qkv = at::zeros({batch, size, 3, attention_heads, size});
  qkv.select(2, 2).copy_(at::eye(size).view({1, size, 1, size}));
  const at::Tensor out =
      attention(qkv.view({batch, size, -1}), attention_heads,
                {.causal = false, .dropout = probability, .site = site}, context);
  return (out != 0).view({batch, size, attention_heads, size}).transpose(1, 2);
}

at::Tensor kept_by_dropout(const ForwardContext& context, double probability, std::int64_t site) {
  const auto batch = static_cast<std::int64_t>(samples.size());
  return (dropout(at::ones({batch, size, size}), probability, context, site) != 0).unsqueeze(1);
}

using Kernel = at::Tensor (*)(const ForwardContext&, double, std::int64_t);

at::Tensor masks_of(Kernel kernel, double probability) {
  std::vector<at::Tensor> all;
  for (std::int64_t seed = 0; seed < seeds; ++seed)
    for (std::int64_t window = 0; window < windows; ++window)
      for (std::int64_t site = 0; site < sites; ++site)
        all.push_back(kernel({.training = true,
                              .seed = 1337 + static_cast<std::uint64_t>(seed),
                              .window = window,
                              .sample_ids = samples},
                             probability, site));
  const at::Tensor stacked = at::stack(all);
  return stacked.view({seeds, windows, sites, stacked.size(1), stacked.size(2), size, size});
}

/// The distance of the sum of squares of values that should be standard normal from its mean (their
/// number), in standard deviations (its variance is twice that).
double chi_square_deviation(const at::Tensor& z) {
  const auto count = static_cast<double>(z.numel());
  return std::abs(z.square().sum().item<double>() - count) / std::sqrt(2 * count);
}

constexpr double allowed = 5;

/// The number of kept elements in each (seed, window, site, sample, head), as standard normals.
at::Tensor keep_rates(const at::Tensor& kept, double probability) {
  const auto count = static_cast<double>(size * size);
  return (kept.to(at::kDouble).sum({-2, -1}) - count * (1 - probability)) /
         std::sqrt(count * probability * (1 - probability));
}

/// The deviation of the correlations between elements that are `lag` apart in one direction, one
/// for each (seed, window, site, sample, head).
double neighbour_deviation(const at::Tensor& kept, double probability, std::int64_t direction,
                           std::int64_t lag) {
  const at::Tensor centred =
      (kept.to(at::kDouble) - (1 - probability)) / std::sqrt(probability * (1 - probability));
  const std::int64_t pairs = kept.size(direction) - lag;
  const at::Tensor products =
      centred.narrow(direction, 0, pairs) * centred.narrow(direction, lag, pairs);
  const auto count = static_cast<double>(products.size(-2) * products.size(-1));
  return chi_square_deviation(products.sum({-2, -1}) / std::sqrt(count));
}

/// body(direction, lag) for all neighbourhoods that the mask has.
void for_each_neighbourhood(const at::Tensor& kept,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
  for (std::int64_t direction = 0; direction < kept.dim(); ++direction)
    for (const std::int64_t lag : {1, 2, 3, 4, 8, 16, 32, 48})
      if (lag < kept.size(direction)) body(direction, lag);
}

struct Case {
  std::string name;
  Kernel kernel;
};

class MaskStatistics : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, MaskStatistics,
                         ::testing::Values(Case{"Attention", kept_by_attention},
                                           Case{"Dropout", kept_by_dropout}),
                         [](const auto& param) { return param.param.name; });

TEST_P(MaskStatistics, KeepsTheStatedShareEverywhere) {
  for (const double probability : {0.05, 0.5, 0.9}) {
    const at::Tensor z = keep_rates(masks_of(GetParam().kernel, probability), probability);
    EXPECT_LT(z.abs().max().item<double>(), allowed) << probability;
    EXPECT_LT(chi_square_deviation(z), allowed) << probability;
  }
}

TEST_P(MaskStatistics, NeighboursInEveryDirectionAreUncorrelated) {
  for (const double probability : {0.1, 0.5}) {
    const at::Tensor kept = masks_of(GetParam().kernel, probability);
    for_each_neighbourhood(kept, [&](std::int64_t direction, std::int64_t lag) {
      EXPECT_LT(neighbour_deviation(kept, probability, direction, lag), allowed)
          << directions[direction] << ", lag " << lag << ", p " << probability;
    });
  }
}

TEST_P(MaskStatistics, ThresholdsShareTheirWords) {
  // All probabilities use the same words: elements dropped at 0.1 are dropped at 0.5.
  const at::Tensor few = masks_of(GetParam().kernel, 0.5), many = masks_of(GetParam().kernel, 0.1);
  EXPECT_TRUE((many.logical_or(few.logical_not())).all().item<bool>());
}

TEST_P(MaskStatistics, TheTestsSeeAMaskThatForgetsAPartOfItsKey) {
  const at::Tensor kept = masks_of(GetParam().kernel, 0.5);
  for_each_neighbourhood(kept, [&](std::int64_t direction, std::int64_t lag) {
    // Every second slice in this direction repeats the one `lag` before it.
    at::Tensor forgetful = kept.clone();
    for (std::int64_t i = lag; i < kept.size(direction); ++i)
      if (i / lag % 2 == 1) forgetful.select(direction, i).copy_(kept.select(direction, i - lag));
    EXPECT_GT(neighbour_deviation(forgetful, 0.5, direction, lag), allowed)
        << directions[direction] << ", lag " << lag;
  });
  EXPECT_GT(chi_square_deviation(keep_rates(kept, 0.51)), allowed);
}

}  // namespace mask_statistics_test
}  // namespace accrue::kernels
