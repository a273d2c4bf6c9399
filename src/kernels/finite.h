#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace accrue::kernels {

namespace detail {

template <class Value>
bool all_finite(const at::Tensor& flat) {
  const Value* const values = flat.const_data_ptr<Value>();
  bool is_finite = true;
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    is_finite &= std::isfinite(static_cast<double>(values[i]));
  return is_finite;
}

/// By a sum in fp64, a piece at a time: for a whole matrix in bf16 ATen would make a copy of four
/// times its bytes.
inline bool all_finite_by_sums(const at::Tensor& flat) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += piece) {
    const at::Tensor part = flat.narrow(0, begin, std::min(piece, flat.numel() - begin));
    if (!std::isfinite(part.sum(at::kDouble).item<double>())) return false;
  }
  return true;
}

}  // namespace detail

/// Whether all values are finite. Values that are side by side in host memory, in any order, are
/// read in place: a checkpoint is also written when no memory is left.
inline bool all_finite(const at::Tensor& values) {
  const at::Tensor own = values.detach();
  const at::Tensor kept = own.is_complex() ? at::view_as_real(own.resolve_conj()) : own;
  const bool is_dense = kept.is_non_overlapping_and_dense();
  const at::Tensor flat = is_dense ? kept.as_strided({kept.numel()}, {1}) : kept.reshape(-1);
  if (!flat.device().is_cpu()) return detail::all_finite_by_sums(flat);
  switch (flat.scalar_type()) {
    case at::kFloat:
      return detail::all_finite<float>(flat);
    case at::kDouble:
      return detail::all_finite<double>(flat);
    case at::kBFloat16:
      return detail::all_finite<at::BFloat16>(flat);
    case at::kHalf:
      return detail::all_finite<at::Half>(flat);
    default:
      return detail::all_finite_by_sums(flat);
  }
}

}  // namespace accrue::kernels
