#include "distributed/compress/power_sgd.h"

#include <gmock/gmock.h>

#include <limits>

#include "distributed/compress/feedback_compressor.h"
#include "distributed/compress/low_rank.h"
#include "distributed/compressing_ranks.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::distributed {
namespace {

using accrue::testing::close;
using accrue::testing::usage_message;
using testing::CompressingRanks;
using ::testing::HasSubstr;
using testing::random_tensor;

constexpr std::int64_t kRows = 40, kColumns = 30, kMatrix = kRows * kColumns;
/// A vector, the matrix, and one that its factors would not make smaller.
constexpr std::int64_t kBefore = 7, kSmallRows = 5, kSmallColumns = 3;
constexpr std::int64_t kBufferElements = kBefore + kMatrix + kSmallRows * kSmallColumns;

CompressingRanks ranks_of(std::int64_t world, std::int64_t rank) {
  return {world, [=] {
            return make_power_sgd(
                kBufferElements,
                {{kBefore + kMatrix, kSmallRows, kSmallColumns}, {kBefore, kRows, kColumns}}, world,
                {.rank = rank, .seed = 3});
          }};
}

at::Tensor matrix_of(const at::Tensor& flat) {
  return flat.narrow(-1, kBefore, kMatrix).unflatten(-1, {kRows, kColumns});
}

const at::Tensor& residual_of(const Compressor& compressor) {
  return dynamic_cast<const FeedbackCompressor&>(compressor).residual();
}

at::Tensor gradients(std::int64_t world, std::uint64_t seed) {
  return random_tensor({world, kBufferElements}, seed);
}

/// The result of one rank's compressor for `gradient` with nothing kept, `windows` times.
at::Tensor approximation(const at::Tensor& gradient, std::int64_t rank, int windows) {
  CompressingRanks ranks = ranks_of(1, rank);
  at::Tensor sum;
  for (int window = 0; window < windows; ++window) {
    NamedParameters state = ranks.state();
    state.front().tensor.zero_();
    ranks.load(state);
    sum = ranks.sum(gradient);
  }
  return matrix_of(sum)[0];
}

TEST(PowerSgd, GradientsOfThatRankAreExact) {
  constexpr std::int64_t world = 3, rank = 2;
  const at::Tensor columns = random_tensor({kRows, rank}, 1);
  at::Tensor given = gradients(world, 2);
  matrix_of(given).copy_(at::matmul(columns, random_tensor({world, rank, kColumns}, 3)));
  const at::Tensor expected = given.to(at::kDouble).sum(0);
  const at::Tensor sums = ranks_of(world, rank).sum(given);
  EXPECT_TRUE(close(sums[0], expected, at::kFloat, kRows * world));
  EXPECT_FALSE(close(ranks_of(world, 1).sum(given)[0], expected, at::kFloat, kRows * world));
}

TEST(PowerSgd, WarmStartReachesTheBestApproximation) {
  constexpr std::int64_t rank = 3;
  const at::Tensor given = gradients(1, 4);
  const at::Tensor matrix = matrix_of(given)[0].to(at::kDouble);
  // Eckart and Young: the rest of the singular values is the least error.
  const at::Tensor singular = at::linalg_svdvals(matrix);
  const double best = singular.narrow(0, rank, singular.numel() - rank).norm().item<double>();
  const auto error = [&](int windows) {
    return (approximation(given, rank, windows).to(at::kDouble) - matrix).norm().item<double>();
  };
  EXPECT_NEAR(error(200) / best, 1, 1e-3);
  EXPECT_GT(error(1) / best, 1.02) << "one step from a random start is not there";
}

TEST(PowerSgd, EveryRankHasTheSameBits) {
  constexpr std::int64_t world = 4;
  CompressingRanks ranks = ranks_of(world, 2);
  for (std::uint64_t window = 0; window < 3; ++window) {
    const at::Tensor sums = ranks.sum(gradients(world, window));
    for (std::int64_t rank = 1; rank < world; ++rank) EXPECT_TRUE(at::equal(sums[rank], sums[0]));
  }
}

TEST(PowerSgd, WhatLiesInNoSmallerMatrixIsSummedInFp32) {
  constexpr std::int64_t world = 3;
  const at::Tensor given = gradients(world, 5);
  const at::Tensor sum = ranks_of(world, 2).sum(given)[0];
  const at::Tensor expected = given[0] + given[1] + given[2];
  EXPECT_TRUE(at::equal(sum.narrow(0, 0, kBefore), expected.narrow(0, 0, kBefore)));
  const std::int64_t small = kSmallRows * kSmallColumns;
  EXPECT_TRUE(at::equal(sum.narrow(0, kBufferElements - small, small),
                        expected.narrow(0, kBufferElements - small, small)));
  EXPECT_FALSE(at::equal(sum, expected));
}

TEST(PowerSgd, WhatASumLeavesOutIsKept) {
  constexpr std::int64_t world = 3;
  CompressingRanks ranks = ranks_of(world, 2);
  at::Tensor given = at::zeros({kBufferElements}, at::kDouble), received = given.clone();
  double unit = 1;
  for (std::uint64_t window = 0; window < 5; ++window) {
    unit = 1 / static_cast<double>(1 + window % 3);
    const at::Tensor mine = gradients(world, window);
    given += mine.to(at::kDouble).sum(0) * unit;
    received += ranks.sum(mine, unit)[0].to(at::kDouble) * unit;
    EXPECT_TRUE(close(received + ranks.kept() * unit, given, at::kFloat, kRows * world));
  }
  EXPECT_FALSE(close(received, given, at::kFloat, kRows * world));
}

TEST(PowerSgd, ARankKeepsNoMoreThanItHad) {
  constexpr std::int64_t world = 3;
  CompressingRanks ranks = ranks_of(world, 2);
  // One rank's gradient is a hundred times the others'.
  at::Tensor given = gradients(world, 6);
  given[0].mul_(100);
  ranks.sum(given);
  for (std::int64_t rank = 0; rank < world; ++rank)
    EXPECT_LE(residual_of(ranks.of(rank)).norm().item<double>(),
              matrix_of(given)[rank].norm().item<double>());
}

TEST(PowerSgd, SendsTheBytesOfTheFormula) {
  constexpr std::int64_t world = 4, rank = 2;
  CompressingRanks ranks = ranks_of(world, rank);
  ranks.sum(gradients(world, 7));
  const auto share = [](std::int64_t elements) { return (elements + world - 1) / world; };
  const std::int64_t others = kBufferElements - kMatrix;
  EXPECT_EQ(ranks.last.sent_bytes,
            8 * (world - 1) * (share(rank * kRows + others) + share(rank * kColumns)));
  EXPECT_EQ(ranks.all.sent_bytes(), ranks.last.sent_bytes);
}

TEST(PowerSgd, ABadWindowLeavesNoTrace) {
  constexpr std::int64_t world = 2;
  for (const std::int64_t place : {std::int64_t{0}, kBefore + 5, kBufferElements - 1}) {
    CompressingRanks ranks = ranks_of(world, 2), untouched = ranks_of(world, 2);
    ranks.sum(gradients(world, 1));
    untouched.sum(gradients(world, 1));
    at::Tensor bad = gradients(world, 2);
    bad[1][place] = -std::numeric_limits<float>::infinity();
    const at::Tensor sums = ranks.sum(bad);
    EXPECT_FALSE(ranks.last.finite);
    for (std::int64_t rank = 0; rank < world; ++rank)
      EXPECT_FALSE(at::isfinite(sums[rank]).all().item<bool>());
    EXPECT_TRUE(at::equal(ranks.sum(gradients(world, 3)), untouched.sum(gradients(world, 3))));
    EXPECT_TRUE(ranks.last.finite);
  }
}

TEST(PowerSgd, AMatrixThatWasNotUsedStartsAnew) {
  CompressingRanks ranks = ranks_of(1, 2);
  EXPECT_EQ(ranks.sum(at::zeros({1, kBufferElements})).abs().max().item<float>(), 0);
  at::Tensor given = gradients(1, 8);
  matrix_of(given)[0].copy_(at::outer(random_tensor({kRows}, 9), random_tensor({kColumns}, 10)));
  EXPECT_TRUE(close(ranks.sum(given), given, at::kFloat, kRows));
}

/// Its sums are linear in the ranks' gradients and their kept errors, except for rounding: so it
/// does not matter which of them has which.
TEST(PowerSgd, AnyNumberOfRanksGoesOnFromTheStateWithTheSameSums) {
  constexpr std::int64_t world = 2;
  CompressingRanks ranks = ranks_of(world, 2);
  ranks.sum(gradients(world, 1));
  const NamedParameters state = ranks.state();
  const at::Tensor second = gradients(world, 2), expected = ranks.sum(second)[0];
  const at::Tensor divided = at::cat({second, gradients(1, 3)});
  divided[1].sub_(divided[2]);
  for (const at::Tensor& given : {second, divided}) {
    const std::int64_t others = given.size(0);
    CompressingRanks resumed = ranks_of(others, 2), anew = ranks_of(others, 2);
    resumed.load(state);
    EXPECT_TRUE(close(resumed.sum(given)[0], expected, at::kFloat, kRows * kColumns * others));
    EXPECT_FALSE(close(anew.sum(given)[0], expected, at::kFloat, kRows * kColumns * others));
  }
}

TEST(PowerSgd, RefusesMatricesThatAreNotApart) {
  const auto message = [](std::vector<MatrixRange> matrices, std::int64_t rank = 1) {
    return usage_message([&] { make_power_sgd(100, matrices, 1, {.rank = rank}); });
  };
  EXPECT_THAT(message({{0, 8, 8}, {60, 4, 4}}), HasSubstr("received 4 x 4 at 60"));
  EXPECT_THAT(message({{90, 4, 4}}), HasSubstr("apart within 100 elements"));
  EXPECT_THAT(message({}, 0), HasSubstr("a rank of at least 1, received 0"));
}

TEST(Orthonormalise, ColumnsSpanTheSameSpace) {
  const at::Tensor before = random_tensor({50, 4}, 1);
  // Nearly dependent, and dependent.
  before.select(1, 2).copy_(before.select(1, 0) + 1e-6 * before.select(1, 2));
  before.select(1, 3).copy_(2 * before.select(1, 1));
  at::Tensor after = before.clone();
  orthonormalise(after.mutable_data_ptr<float>(), 50, 4);
  const at::Tensor product = at::matmul(after.t().to(at::kDouble), after.to(at::kDouble));
  EXPECT_TRUE(
      close(product, at::diag(at::tensor({1.0, 1.0, 1.0, 0.0}, at::kDouble)), at::kFloat, 50));
  const at::Tensor left =
      before.to(at::kDouble) -
      at::matmul(after.to(at::kDouble), at::matmul(after.t(), before).to(at::kDouble));
  EXPECT_TRUE(close(before.to(at::kDouble) - left, before, at::kFloat, 50));
}

}  // namespace
}  // namespace accrue::distributed
