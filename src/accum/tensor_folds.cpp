#include "accum/tensor_folds.h"

#include <ATen/ATen.h>

#include <limits>

#include "kernels/generic/stochastic_rounding.h"

namespace accrue::accum::tensor_folds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Replaces elements that do not count by zero.
at::Tensor zero_unless_below(const at::Tensor& values, double limit) {
  return at::where(values.abs().lt(limit), values, at::zeros({}, values.options()));
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
  sum.view({-1}).copy_(kernels::generic::rounded_stochastically(total, stream));
}

void fold_fixed(const at::Tensor& from, at::Tensor& sum, bool add, const FixedScale& scale) {
  const at::Tensor units = zero_unless_below(from.to(at::kDouble), scale.limit)
                               .mul_(scale.per_unit)
                               .round_()
                               .to(at::kLong);
  add ? sum.add_(units) : sum.copy_(units);
}

}  // namespace accrue::accum::tensor_folds
