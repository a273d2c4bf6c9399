#include "accum/finite_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::accum {

bool sum_is_finite(const GradientBuffer::Entry& entry) {
  constexpr std::int64_t piece_elements = 4096;
  if (entry.slot->found_non_finite) return false;
  const at::Tensor& sum = entry.slot->main;
  if (entry.slot->fresh || !sum.is_floating_point()) return true;
  if (!sum.is_cpu()) return at::isfinite(sum).all().item<bool>();
  const auto pieces = sum.view({-1}).split(piece_elements);
  return std::ranges::all_of(
      pieces, [](const at::Tensor& piece) { return at::isfinite(piece).all().item<bool>(); });
}

bool sums_are_finite(const GradientBuffer& buffer) {
  return std::ranges::all_of(buffer.entries(), sum_is_finite);
}

}  // namespace accrue::accum
