#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace accrue::kernels {

/// Whether all values are finite. Their sum tells, in fp64 and a piece at a time: of a whole matrix
/// in bf16 ATen would make a copy of four times its bytes.
inline bool all_finite(const at::Tensor& values) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  const at::Tensor kept = values.detach();
  const at::Tensor flat =
      (kept.is_complex() ? at::view_as_real(kept.resolve_conj()) : kept).reshape(-1);
  for (std::int64_t begin = 0; begin < flat.numel(); begin += piece) {
    const at::Tensor part = flat.narrow(0, begin, std::min(piece, flat.numel() - begin));
    if (!std::isfinite(part.sum(at::kDouble).item<double>())) return false;
  }
  return true;
}

}  // namespace accrue::kernels
