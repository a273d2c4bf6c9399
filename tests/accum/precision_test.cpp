#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "accum/fold_passes.h"
#include "accum/staged.h"
#include "core/rng.h"

namespace accrue::accum {
namespace {

using testing::StagedWindow;

constexpr std::int64_t kNoisyElements = 2'048, kNoisyMicroBatches = 2'048;
/// Standard deviations of a rounding error that no element exceeds: 5e-9 for all of them together.
constexpr double kSigmas = 6.5;

/// Contributions of gradients: each element has its own mean and spread, over six orders of
/// magnitude.
class Contributions {
 public:
  Contributions() {
    at::manual_seed(17);
    scale_ = at::pow(10, at::rand({kNoisyElements}, at::kDouble) * 6 - 6);
    // One statement each: compilers differ in which operand of a product they draw first.
    const at::Tensor sign = at::randint(0, 2, {kNoisyElements}).to(at::kDouble).mul(2).sub(1);
    mean_ = scale_ * (at::rand({kNoisyElements}, at::kDouble) + 0.5) * sign;
  }
  at::Tensor at(std::int64_t i) const {
    at::manual_seed(static_cast<std::uint64_t>(1000 + i));
    return (mean_ + scale_ * at::randn({kNoisyElements}, at::kDouble)).to(at::kFloat);
  }

 private:
  at::Tensor scale_, mean_;
};

/// The exact sums (in extended precision), and the terms of the bounds, by element.
struct Reference {
  at::Tensor sum, running_squares, running, magnitudes;

  Reference() {
    const Contributions contributions;
    std::vector<long double> exact(kNoisyElements);
    sum = at::zeros({kNoisyElements}, at::kDouble);
    running_squares = at::zeros_like(sum);
    running = at::zeros_like(sum);
    for (std::int64_t i = 0; i < kNoisyMicroBatches; ++i) {
      const at::Tensor contribution = contributions.at(i);
      for (std::int64_t e = 0; e < kNoisyElements; ++e) {
        exact[static_cast<std::size_t>(e)] += contribution.const_data_ptr<float>()[e];
        sum.mutable_data_ptr<double>()[e] = static_cast<double>(exact[static_cast<std::size_t>(e)]);
      }
      running_squares += sum.square();
      running += sum.abs();
    }
  }
  static const Reference& get() {
    static const Reference reference;
    return reference;
  }
};

/// The formulas of docs/numerics.md, "Accumulation precisions".
at::Tensor bound(Accumulation accumulation) {
  const Reference& r = Reference::get();
  // Rounding to nearest with unit roundoff u errs by at most u|s|, uniformly: u|s| / sqrt(3) rms.
  const auto nearest = [&](double u) {
    return kSigmas * u / std::sqrt(3) * r.running_squares.sqrt();
  };
  switch (accumulation) {
    case Accumulation::fp64:
      return nearest(0x1p-53) + 0x1p-53 * r.sum.abs();
    case Accumulation::fixed: {
      // Each contribution is rounded to a unit: at most half of one, 1 / sqrt(12) rms.
      const double unit = 0x1p-40;
      return at::full({kNoisyElements}, kSigmas * unit * std::sqrt(kNoisyMicroBatches / 12.0),
                      at::kDouble) +
             0x1p-53 * r.sum.abs();
    }
    case Accumulation::fp32:
      return nearest(0x1p-24);
    case Accumulation::bf16_kahan:
      // The compensation, at most 2^-8 of the sum, is itself rounded to bf16.
      return nearest(0x1p-16) + 0x1p-16 * r.sum.abs();
    case Accumulation::bf16_stochastic:
      // Between two adjacent values, at most 2^-7|s| apart, at random: at most half of that rms.
      return kSigmas * 0x1p-8 * r.running_squares.sqrt();
    case Accumulation::bf16:
      return 0x1p-8 * r.running;  // The worst case: its errors do not cancel.
  }
  return {};
}

at::Tensor error_of_sum(Accumulation accumulation) {
  const Contributions contributions;
  StagedWindow w(accumulation, {kNoisyElements});
  w.allow_replay();
  w.window.open(0);
  for (std::int64_t i = 0; i < kNoisyMicroBatches; ++i) w.add(contributions.at(i));
  return (w.sum() - Reference::get().sum).abs();
}

bool within(const at::Tensor& error, const at::Tensor& limit) {
  return (error <= limit).all().item<bool>();
}

/// For the table of docs/numerics.md.
void record_median(const at::Tensor& error) {
  const at::Tensor relative = error / Reference::get().sum.abs();
  ::testing::Test::RecordProperty("log10_median_relative_error",
                                  std::to_string(relative.log10().median().item<double>()));
}

/// Each precision keeps its bound over 2,048 micro-batches, and the next worse one breaks it.
class Ladder : public ::testing::TestWithParam<std::pair<Accumulation, Accumulation>> {};
INSTANTIATE_TEST_SUITE_P(
    Precisions, Ladder,
    ::testing::Values(std::pair(Accumulation::fp64, Accumulation::fixed),
                      std::pair(Accumulation::fixed, Accumulation::fp32),
                      std::pair(Accumulation::fp32, Accumulation::bf16_kahan),
                      std::pair(Accumulation::bf16_kahan, Accumulation::bf16_stochastic),
                      std::pair(Accumulation::bf16_stochastic, Accumulation::bf16)));

TEST_P(Ladder, KeepsItsBoundAndTheNextOneDoesNot) {
  const auto [precision, worse] = GetParam();
  const at::Tensor limit = bound(precision), error = error_of_sum(precision);
  EXPECT_TRUE(within(error, limit)) << (error / limit).max();
  EXPECT_FALSE(within(error_of_sum(worse), limit));
  record_median(error);
}

TEST(Bf16, KeepsOnlyTheWorstCaseBound) {
  const at::Tensor error = error_of_sum(Accumulation::bf16);
  EXPECT_TRUE(within(error, bound(Accumulation::bf16)));
  record_median(error);
}

TEST(Bf16, Stalls) {
  const auto sum_of_ones = [](Accumulation accumulation, int count) {
    StagedWindow w(accumulation, {256});
    w.window.open(0);
    for (int i = 0; i < count; ++i) w.add(at::ones({256}));
    return w.sum().mean().item<double>();
  };
  EXPECT_EQ(sum_of_ones(Accumulation::bf16, 256), 256);
  EXPECT_EQ(sum_of_ones(Accumulation::bf16, 257), 256);
  EXPECT_EQ(sum_of_ones(Accumulation::bf16, 2'048), 256);
  EXPECT_EQ(sum_of_ones(Accumulation::bf16_kahan, 2'048), 2'048);
  EXPECT_NEAR(sum_of_ones(Accumulation::bf16_stochastic, 2'048), 2'048, 20);
  EXPECT_EQ(sum_of_ones(Accumulation::fixed, 2'048), 2'048);
}

/// 1 + 2^-10 is an eighth of the way from 1 to the next bf16.
TEST(Bf16Stochastic, IsUnbiasedAndReproducible) {
  constexpr std::int64_t kDraws = 100'000;
  constexpr double kStep = 0x1p-7, kChance = 0.125;
  const auto rounded = [](std::uint64_t seed, std::int64_t window) {
    StagedWindow w(Accumulation::bf16_stochastic, {kDraws}, at::kFloat, seed);
    w.window.open(window);
    w.add(at::full({kDraws}, 1 + 0x1p-10F));
    return w.sum();
  };
  const at::Tensor values = rounded(1, 0);
  EXPECT_TRUE(((values == 1) | (values == 1 + kStep)).all().item<bool>());
  const double sigma = std::sqrt(kChance * (1 - kChance) / kDraws);
  EXPECT_NEAR(((values - 1) / kStep).mean().item<double>(), kChance, 5 * sigma);
  EXPECT_TRUE(at::equal(rounded(1, 0), values));
  for (const at::Tensor& other : {rounded(2, 0), rounded(1, 1)}) {
    EXPECT_FALSE(at::equal(other, values));
    // Independent draws agree on p^2 + (1-p)^2 of the elements.
    const double expected = kChance * kChance + (1 - kChance) * (1 - kChance);
    EXPECT_NEAR((other == values).to(at::kDouble).mean().item<double>(), expected,
                5 * std::sqrt(expected * (1 - expected) / kDraws));
  }
}

/// The vectorised generator against the plain one, at every element's own counter and half.
TEST(Bf16Stochastic, RoundsByTheBitsOfPhilox) {
  constexpr std::size_t kCount = 5 * kRoundingBlock + 37;
  const RoundingStream stream{{11, 12}, {13, 14}};
  at::manual_seed(3);
  const at::Tensor from = at::randn({static_cast<std::int64_t>(kCount)});
  std::vector<std::uint16_t> sum(kCount);
  fold_bf16_stochastic(from.const_data_ptr<float>(), sum.data(), kCount, false, stream,
                       2 * kRoundingBlock);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t e = i + 2 * kRoundingBlock, half = e / 16 % 8;
    const auto counter = static_cast<std::uint32_t>(e / 128 * 16 + e % 16);
    const std::uint32_t word = philox({counter, 0, 13, 14}, {11, 12})[half / 2];
    const std::uint32_t random = half % 2 == 0 ? word & 0xffff : word >> 16;
    const auto bits = std::bit_cast<std::uint32_t>(from.const_data_ptr<float>()[i]);
    ASSERT_EQ(sum[i], (bits + random) >> 16) << i;
  }
}

TEST(Bf16Stochastic, DrawsAnewForEveryContribution) {
  StagedWindow w(Accumulation::bf16_stochastic, {4'096});
  w.window.open(0);
  w.add(at::full({4'096}, 1 + 0x1p-10F));
  const at::Tensor first = w.sum();
  w.add(at::full({4'096}, -1.0F));
  w.add(at::full({4'096}, 1 + 0x1p-10F));
  EXPECT_FALSE(at::equal(w.sum(), first));
}

}  // namespace
}  // namespace accrue::accum
