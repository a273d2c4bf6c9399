#include "accum/tensor_folds.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

#include "kernels/generic/philox.h"

namespace accrue::accum::tensor_folds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr auto block = static_cast<std::int64_t>(kRoundingBlock);
constexpr std::int64_t lanes = 16;  ///< elements of a block that share a half of a word

/// What does not count is zero.
at::Tensor zero_unless_below(const at::Tensor& values, double limit) {
  return at::where(values.abs().lt(limit), values, at::zeros({}, values.options()));
}

/// The 16 random bits of each of `count` elements (core/rounding_stream.h), int32.
at::Tensor random_halves(const RoundingStream& stream, std::int64_t count, at::Device device) {
  const std::int64_t blocks = (count + block - 1) / block;
  const at::TensorOptions whole = at::TensorOptions(at::kLong).device(device);
  const at::Tensor counter = at::arange(blocks * lanes, whole);
  const auto constant = [&](std::uint32_t word) {
    return at::full({1}, std::int64_t{word}, whole);
  };
  const kernels::generic::PhiloxWords words =
      kernels::generic::philox({counter.bitwise_and(0xFFFFFFFF), counter.bitwise_right_shift(32),
                                constant(stream.tweak[0]), constant(stream.tweak[1])},
                               constant(stream.key[0]), constant(stream.key[1]));
  std::vector<at::Tensor> halves;
  for (const at::Tensor& word : words) {
    halves.push_back(word.bitwise_and(0xFFFF).view({blocks, 1, lanes}));
    halves.push_back(word.bitwise_right_shift(16).view({blocks, 1, lanes}));
  }
  return at::cat(halves, 1).view({-1}).narrow(0, 0, count).to(at::kInt);
}

}  // namespace

at::Tensor largest_of(const at::Tensor& contribution) {
  if (contribution.numel() == 0) return at::zeros({}, contribution.options().dtype(at::kDouble));
  return contribution.abs().nan_to_num(infinity, infinity).max().to(at::kDouble);
}

void fold_fp64(const at::Tensor& from, at::Tensor& sum, bool add) {
  const at::Tensor kept = zero_unless_below(from, infinity);
  add ? sum.add_(kept) : sum.copy_(kept);
}

void fold_bf16(const at::Tensor& from, at::Tensor& sum, bool add) {
  const at::Tensor kept = zero_unless_below(from, infinity);
  sum.copy_(add ? sum.to(at::kFloat).add_(kept) : kept);
}

void fold_bf16_kahan(const at::Tensor& from, at::Tensor& sum, at::Tensor& compensation, bool add) {
  const at::Tensor kept = zero_unless_below(from, infinity);
  const at::Tensor before = add ? sum.to(at::kFloat) : at::zeros_like(kept);
  const at::Tensor owed = add ? kept - compensation.to(at::kFloat) : kept;
  sum.copy_(before + owed);
  compensation.copy_(sum.to(at::kFloat).sub_(before).sub_(owed));
}

void fold_bf16_stochastic(const at::Tensor& from, at::Tensor& sum, bool add,
                          const RoundingStream& stream) {
  const at::Tensor kept = zero_unless_below(from, infinity).view({-1});
  const at::Tensor total = add ? sum.view({-1}).to(at::kFloat).add_(kept) : kept.contiguous();
  const at::Tensor bits =
      total.view(at::kInt) + random_halves(stream, total.numel(), total.device());
  sum.view({-1}).copy_(bits.bitwise_right_shift(16).to(at::kShort).view(at::kBFloat16));
}

void fold_fixed(const at::Tensor& from, at::Tensor& sum, bool add, const FixedScale& scale) {
  const at::Tensor units = zero_unless_below(from.to(at::kDouble), scale.limit)
                               .mul_(scale.per_unit)
                               .round_()
                               .to(at::kLong);
  add ? sum.add_(units) : sum.copy_(units);
}

}  // namespace accrue::accum::tensor_folds
