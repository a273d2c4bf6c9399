#include "accum/finite_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/memory/offload_passes.h"

namespace accrue::accum {
namespace {

bool is_finite(const at::Tensor& flat) {
  constexpr std::int64_t piece_elements = 4096;
  const auto pieces = flat.split(piece_elements);
  return std::ranges::all_of(
      pieces, [](const at::Tensor& piece) { return at::isfinite(piece).all().item<bool>(); });
}

}  // namespace

bool sum_is_finite(const GradientBuffer::Entry& entry) {
  if (entry.slot->found_non_finite) return false;
  const at::Tensor& sum = entry.slot->main;
  if (entry.slot->fresh || !sum.is_floating_point()) return true;
  if (!sum.is_cpu()) return at::isfinite(sum).all().item<bool>();
  bool all_are = true;
  memory::for_pieces(sum, [&](std::int64_t begin, std::int64_t count) {
    all_are = all_are && is_finite(sum.view({-1}).narrow(0, begin, count));
  });
  return all_are;
}

bool sums_are_finite(const GradientBuffer& buffer) {
  return std::ranges::all_of(buffer.entries(), sum_is_finite);
}

}  // namespace accrue::accum
