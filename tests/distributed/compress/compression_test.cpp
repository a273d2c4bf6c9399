#include "distributed/compress/compression.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "distributed/compress/block_codec.h"
#include "distributed/compressing_ranks.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::distributed {
namespace {

using accrue::testing::close;
using accrue::testing::relative_error;
using accrue::testing::usage_message;
using testing::CompressingRanks;
using ::testing::HasSubstr;
using testing::LocalRanks;
using testing::random_tensor;

constexpr double kMicroscopic = 0x1p-101;

// Codecs.

at::Tensor coded(const BlockCodec& codec, const at::Tensor& values) {
  const auto count = static_cast<std::size_t>(values.numel());
  std::vector<std::uint8_t> code((count + kCodecBlock - 1) / kCodecBlock * codec.block_bytes);
  codec.encode(values.const_data_ptr<float>(), count, code.data());
  EXPECT_EQ(codec.is_finite(code.data(), count), at::isfinite(values).all().item<bool>());
  at::Tensor decoded = at::zeros_like(values);
  codec.decode_add(code.data(), count, decoded.mutable_data_ptr<float>());
  return decoded;
}

/// Over twelve orders of magnitude, with zeros, in blocks and a tail.
at::Tensor spread_values() {
  at::Tensor values = at::exp(4 * random_tensor({1000}, 1)) * random_tensor({1000}, 2);
  values.narrow(0, 40, 10).zero_();
  return values;
}

TEST(Bf16Codec, IsTheNearest) {
  const at::Tensor values = spread_values();
  EXPECT_TRUE(at::equal(coded(bf16_codec(), values), values.to(at::kBFloat16).to(at::kFloat)));
  // Halfway between two, and above the largest.
  const at::Tensor ties = at::tensor({1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -1 - 0x1p-8f, 0x1p-133f});
  EXPECT_TRUE(at::equal(coded(bf16_codec(), ties), ties.to(at::kBFloat16).to(at::kFloat)));
}

/// Found by a fuzzer: no encoder here writes -128.
TEST(Int8Codec, ACodeThatOverflowsIsNotFinite) {
  std::vector<std::uint8_t> code(kInt8BlockBytes);
  const auto is_finite = [&](float scale) {
    std::memcpy(code.data(), &scale, sizeof scale);
    return int8_codec().is_finite(code.data(), kCodecBlock);
  };
  code[sizeof(float)] = 0x80;
  const float most = std::numeric_limits<float>::max();
  EXPECT_TRUE(is_finite(most / 129));
  EXPECT_FALSE(is_finite(most / 127.5F));
}

TEST(Int8Codec, IsTheNearestMultipleOfItsBlocksStep) {
  const at::Tensor values = spread_values();
  const at::Tensor decoded = coded(int8_codec(), values);
  for (std::int64_t begin = 0; begin < values.numel(); begin += 256) {
    const std::int64_t count = std::min<std::int64_t>(256, values.numel() - begin);
    const at::Tensor block = values.narrow(0, begin, count).to(at::kDouble);
    const double step = block.abs().max().item<double>() / 127;
    const at::Tensor nearest = at::round(block / step) * step;
    const at::Tensor given = decoded.narrow(0, begin, count);
    // The step itself is rounded to fp32, which may turn ties, within the error of the nearest.
    EXPECT_LE((given - block).abs().max().item<double>(), step * (0.5 + 1e-4));
    EXPECT_TRUE(close(given, nearest, at::kFloat, 1));
  }
}

TEST(Int8Codec, MicroscopicBlocksAreZero) {
  const at::Tensor values = random_tensor({300}, 3);
  values.narrow(0, 0, 256).fill_(kMicroscopic);
  const at::Tensor decoded = coded(int8_codec(), values);
  EXPECT_EQ(decoded.narrow(0, 0, 256).abs().max().item<float>(), 0);
  EXPECT_GT(decoded.narrow(0, 256, 44).abs().max().item<float>(), 0);
}

TEST(Codecs, PassOnWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
        std::bit_cast<float>(0xffffffffu)})
    for (const std::int64_t at : {0, 255, 256, 299})
      for (const BlockCodec& codec : {bf16_codec(), int8_codec()}) {
        const at::Tensor values = random_tensor({300}, 4);
        values[at] = bad;
        EXPECT_FALSE(at::isfinite(coded(codec, values)).all().item<bool>());
      }
}

// Sums over ranks.

struct Ranks : CompressingRanks {
  Ranks(Compression compression, std::int64_t elements, std::int64_t world)
      : CompressingRanks(world,
                         [&] { return make_block_compressor(compression, elements, world); }) {}
};

class BlockCompressorTest : public ::testing::TestWithParam<std::tuple<Compression, std::int64_t>> {
 protected:
  Compression compression() const { return std::get<0>(GetParam()); }
  std::int64_t world() const { return std::get<1>(GetParam()); }
  static constexpr std::int64_t kElements = 1700;
  at::Tensor gradients(std::uint64_t seed) const {
    return random_tensor({world(), kElements}, seed);
  }
};

TEST_P(BlockCompressorTest, EveryRankHasTheSameBitsOfASumWithinTheCodesError) {
  Ranks ranks(compression(), kElements, world());
  const at::Tensor given = gradients(1);
  const at::Tensor sums = ranks.sum(given);
  for (std::int64_t rank = 1; rank < world(); ++rank) EXPECT_TRUE(at::equal(sums[rank], sums[0]));
  // Half a step of each rank's code and of the sum's.
  const double step = compression() == Compression::bf16 ? 0x1p-7 : 1.0 / 127;
  const at::Tensor expected = given.to(at::kDouble).sum(0);
  const double bound = step / 2 *
                       (given.abs().max().item<double>() * static_cast<double>(world()) +
                        sums.abs().max().item<double>());
  const double error = (sums[0] - expected).abs().max().item<double>();
  EXPECT_LE(error, bound);
  EXPECT_GT(error, 0) << "something was compressed";
}

TEST_P(BlockCompressorTest, WhatASumLeavesOutIsKept) {
  Ranks ranks(compression(), kElements, world());
  at::Tensor given = at::zeros({kElements}, at::kDouble), received = given.clone();
  for (std::uint64_t window = 0; window < 6; ++window) {
    const at::Tensor mine = gradients(window);
    given += mine.to(at::kDouble).sum(0);
    received += ranks.sum(mine)[0].to(at::kDouble);
    EXPECT_TRUE(close(received + ranks.kept(), given, at::kFloat, 6 * world()));
  }
  EXPECT_FALSE(close(received, given, at::kFloat, 6 * world()));
}

TEST_P(BlockCompressorTest, WhatIsKeptFollowsTheWindowsWeight) {
  // Sums over weights 1, 1/8 and 5: means add up, sums do not.
  Ranks ranks(compression(), kElements, world());
  at::Tensor given = at::zeros({kElements}, at::kDouble), received = given.clone();
  double unit = 1;
  std::uint64_t seed = 0;
  for (const double weight : {1.0, 0.125, 5.0}) {
    unit = 1 / weight;
    const at::Tensor sums = gradients(seed++) * weight;
    given += sums.to(at::kDouble).sum(0) * unit;
    received += ranks.sum(sums, unit)[0].to(at::kDouble) * unit;
  }
  EXPECT_TRUE(close(received + ranks.kept() * unit, given, at::kFloat, 3 * world()));
  EXPECT_FALSE(close(received + ranks.kept(), given, at::kFloat, 3 * world()));
}

TEST_P(BlockCompressorTest, SendsTheBytesOfTheFormula) {
  Ranks ranks(compression(), kElements, world());
  ranks.sum(gradients(1));
  const std::int64_t part = (kElements + world() - 1) / world();
  const std::int64_t blocks = (part + 255) / 256;
  const std::int64_t block_bytes = compression() == Compression::bf16 ? 512 : 260;
  EXPECT_EQ(ranks.last.sent_bytes, 2 * (world() - 1) * blocks * block_bytes);
  EXPECT_EQ(ranks.all.sent_bytes(), ranks.last.sent_bytes);
}

TEST_P(BlockCompressorTest, ABadWindowLeavesNoTrace) {
  Ranks ranks(compression(), kElements, world()), untouched(compression(), kElements, world());
  ranks.sum(gradients(1));
  untouched.sum(gradients(1));
  at::Tensor bad = gradients(2);
  bad[world() - 1][700] = std::numeric_limits<float>::infinity();
  const at::Tensor sums = ranks.sum(bad, 0.25);
  EXPECT_FALSE(ranks.last.finite);
  for (std::int64_t rank = 0; rank < world(); ++rank)
    EXPECT_FALSE(at::isfinite(sums[rank]).all().item<bool>()) << "rank " << rank;
  EXPECT_TRUE(at::equal(ranks.sum(gradients(3)), untouched.sum(gradients(3))));
  EXPECT_TRUE(ranks.last.finite);
}

TEST_P(BlockCompressorTest, AnyNumberOfRanksGoesOnFromTheState) {
  constexpr double before = 0.5, after = 0.25;
  Ranks ranks(compression(), kElements, world());
  const at::Tensor first = gradients(1);
  const at::Tensor received = ranks.sum(first, before)[0].to(at::kDouble) * before;
  for (const std::int64_t other : {world(), world() + 1, std::int64_t{1}}) {
    Ranks resumed(compression(), kElements, other), anew(compression(), kElements, other);
    resumed.load(ranks.state());
    EXPECT_TRUE(close(resumed.kept(), ranks.kept(), at::kFloat, world()));
    const at::Tensor second = random_tensor({other, kElements}, 2);
    const at::Tensor given =
        first.to(at::kDouble).sum(0) * before + second.to(at::kDouble).sum(0) * after;
    const auto accounted = [&](Ranks& further) {
      const at::Tensor sum = further.sum(second, after)[0].to(at::kDouble);
      return received + (sum + further.kept()) * after;
    };
    EXPECT_TRUE(close(accounted(resumed), given, at::kFloat, 2 * (world() + other)));
    EXPECT_FALSE(close(accounted(anew), given, at::kFloat, 2 * (world() + other)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockCompressorTest,
                         ::testing::Combine(::testing::Values(Compression::bf16, Compression::int8),
                                            ::testing::Values(1, 2, 3, 8)));

/// Gradient descent on the sum over ranks of (x - c_r)' A_r (x - c_r) / 2: the ranks' gradients do
/// not vanish at the optimum, only their sum does.
struct Quadratic {
  static constexpr std::int64_t kElements = 600, kWorld = 3;
  at::Tensor curvature = random_tensor({kWorld, kElements}, 1).abs() + 0.5;
  at::Tensor centre = random_tensor({kWorld, kElements}, 2);
  at::Tensor optimum =
      (curvature * centre).to(at::kDouble).sum(0) / curvature.to(at::kDouble).sum(0);

  /// Each rank descends by itself, as all get the same sums, so that threads start once and not for
  /// each step.
  double error_after(int steps, double lr, bool with_feedback) const {
    at::Tensor result;
    LocalRanks(kWorld).run([&](Exchange& exchange) {
      const std::int64_t rank = exchange.rank();
      const auto make = [] { return make_block_compressor(Compression::int8, kElements, kWorld); };
      auto compressor = make();
      at::Tensor x = at::zeros({kElements}, at::kFloat);
      for (int step = 0; step < steps; ++step) {
        if (!with_feedback) compressor = make();
        const at::Tensor gradient = curvature[rank] * (x - centre[rank]);
        compressor->sum(gradient, 1, exchange);
        x = x - lr * gradient;
      }
      if (rank == 0) result = x;
    });
    return relative_error(result, optimum);
  }
};

/// The curvature of the sum is at least 1.5. Over `steps` of `lr`, 8 together, any distance from
/// the optimum shrinks by exp(-12), to less than a twentieth of the smallest that is compared
/// (1.5e-4).
TEST(ErrorFeedback, ReachesTheOptimumWhereDescentWithoutItStalls) {
  const Quadratic quadratic;
  const double without = quadratic.error_after(400, 0.02, false);
  EXPECT_GT(without, 1e-3) << "each sum is wrong by the same";
  EXPECT_GT(quadratic.error_after(1600, 0.005, false), without / 2) << "smaller steps do not help";
  // The distance is that of one error, a step long: it decreases with the step.
  const double with = quadratic.error_after(400, 0.02, true);
  EXPECT_LT(with, without / 10);
  EXPECT_LT(quadratic.error_after(1600, 0.005, true), with / 2);
}

TEST(Compressor, RefusesWhatItWasNotMadeFor) {
  EXPECT_THAT(usage_message([] { make_block_compressor(Compression::powersgd, 10, 2); }),
              HasSubstr("bf16 or int8, received powersgd"));
  const auto compressor = make_block_compressor(Compression::int8, 10, 1);
  const auto message = [&](const at::Tensor& values, double unit) {
    std::string text;
    LocalRanks(1).run([&](Exchange& exchange) {
      text = usage_message([&] { compressor->sum(values, unit, exchange); });
    });
    return text;
  };
  EXPECT_THAT(message(at::zeros({10}, at::kDouble), 1), HasSubstr("received Double [10]"));
  EXPECT_THAT(message(at::zeros({11}), 1), HasSubstr("received Float [11]"));
  EXPECT_THAT(message(at::zeros({10}), 0), HasSubstr("a unit above 0"));
  const auto other = make_block_compressor(Compression::int8, 10, 2);
  LocalRanks(1).run([&](Exchange& exchange) {
    EXPECT_THAT(usage_message([&] { other->sum(at::zeros({10}), 1, exchange); }),
                HasSubstr("2 ranks, received 1"));
  });
  const auto loading = [&](const NamedParameters& state) {
    return usage_message([&] { other->load_state(stored(state), 0); });
  };
  EXPECT_THAT(loading(Ranks(Compression::int8, 11, 2).state()),
              HasSubstr("kept as Float [10], received Float [11]"));
  EXPECT_THAT(loading({}), HasSubstr("the tensor unit"));
  NamedParameters extra = Ranks(Compression::int8, 10, 2).state();
  extra.push_back({"more", at::zeros({1})});
  EXPECT_THAT(loading(extra), HasSubstr("received more"));
}

TEST(Compression, NamesAreThoseOfTheConfig) {
  EXPECT_THAT(compression_words.words(),
              ::testing::ElementsAre("none", "bf16", "int8", "powersgd"));
}

TEST(OrderedSum, AddsInOrderOfRank) {
  // 1 + 2^-24 is 1 in fp32, and 2^-24 + 2^-24 is not negligible next to 1: the order matters.
  LocalRanks ranks(3);
  at::Tensor values = at::tensor({1.0f, 0x1p-24f, 0x1p-24f}).view({3, 1}).expand({3, 5}).clone();
  std::int64_t sent = 0;
  ranks.run([&](Exchange& exchange) {
    const std::int64_t bytes = ordered_sum(values[exchange.rank()], exchange);
    if (exchange.rank() == 0) sent = bytes;
  });
  EXPECT_TRUE(at::equal(values, at::ones({3, 5})));
  EXPECT_EQ(sent, 2 * 2 * 2 * 4) << "parts of 2 elements to 2 others, twice";
  EXPECT_EQ(ranks.sent_bytes(), sent);
}

}  // namespace
}  // namespace accrue::distributed
