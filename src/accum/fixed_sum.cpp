#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "accrue/core/error.h"
#include "accum/staged_sum.h"
#include "accum/tensor_folds.h"
#include "kernels/backend.h"

namespace accrue::accum {
namespace {

/// A contribution has less than 2^46 units, so 2^16 of them stay below 2^62 in any order.
constexpr int kContributionBits = 46;
constexpr std::int64_t kMostContributions = 1 << 16;

/// A restart raises the unit's exponent to a multiple of this, so that a few contributions of
/// growing size cost one restart. Each contribution decides separately, so the result of several is
/// the same in any order.
constexpr int kRestartStep = 8;

/// The factor over the last window's largest sum that a contribution may have without a restart, as
/// a power of two.
constexpr int kHeadroomBits = 10;

/// Exponents at which a unit and its inverse are normal doubles.
constexpr int kLeastUnit = -1000, kMostUnit = 1000;

constexpr std::int64_t kSearchedElements = 1 << 16;

/// The least e with value < 2^e, for value > 0.
int exponent_above(double value) { return std::ilogb(value) + 1; }

int unit_for(double contribution) {
  const int least = exponent_above(contribution) - kContributionBits;
  const int steps = least > 0 ? (least + kRestartStep - 1) / kRestartStep : least / kRestartStep;
  return std::clamp(steps * kRestartStep, kLeastUnit, kMostUnit);
}

/// The largest magnitude of units in host memory.
std::int64_t largest_in_memory(const at::Tensor& units) {
  const std::int64_t* first = units.const_data_ptr<std::int64_t>();
  return at::parallel_reduce(
      0, units.numel(), kSearchedElements, std::int64_t{0},
      [&](std::int64_t begin, std::int64_t end, std::int64_t before) {
        return std::max(before,
                        largest_fixed(first + begin, static_cast<std::size_t>(end - begin)));
      },
      [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}

}  // namespace

FixedScale FixedSum::scale() const {
  return {.per_unit = std::ldexp(1.0, -unit_), .limit = std::ldexp(1.0, unit_ + kContributionBits)};
}

void FixedSum::prepare(const kernels::GradSlot& slot) {
  if (slot.contributions >= kMostContributions)
    throw usage_error("accumulate in fixed point",
                      "at most " + std::to_string(kMostContributions) +
                          " contributions to a parameter in a window",
                      "one more", "larger micro-batches");
}

double FixedSum::fold(const float* from, std::int64_t begin, std::int64_t count, bool add) {
  return fold_fixed(from, data<std::int64_t>() + begin, static_cast<std::size_t>(count), add,
                    scale());
}

double FixedSum::fold(const double* from, std::int64_t begin, std::int64_t count, bool add) {
  return fold_fixed(from, data<std::int64_t>() + begin, static_cast<std::size_t>(count), add,
                    scale());
}

void FixedSum::fold_tensor(const at::Tensor& contribution, bool add) {
  tensor_folds::fold_fixed(contribution, main(), add, scale());
}

at::Tensor FixedSum::values(at::ScalarType dtype) const {
  return main().to(at::kDouble).mul_(std::ldexp(1.0, unit_)).to(dtype);
}

void FixedSum::judge(kernels::GradSlot& slot, double largest) {
  StagedSum::judge(slot, largest);
  if (!std::isfinite(largest) || largest < scale().limit) return;
  const int needed = unit_for(largest);
  needed_ = slot.found_too_large ? std::max(needed_, needed) : needed;
  slot.found_too_large = true;
}

int FixedSum::largest_bits(const ElementRange& range) const {
  if (range.elements == 0) return 0;
  const at::Tensor part = main().view({-1}).narrow(0, range.begin, range.elements);
  const std::int64_t largest = kernels::in_form_of(
      part, [&] { return largest_in_memory(part); },
      [&] { return part.abs().max().item<std::int64_t>(); });
  return std::bit_width(static_cast<std::uint64_t>(largest));
}

void FixedSum::plan(int bits) {
  if (bits == 0) return;
  next_unit_ = std::clamp(unit_ + bits + kHeadroomBits - kContributionBits, kLeastUnit, kMostUnit);
}

void FixedSum::read(std::int64_t begin, std::int64_t count, float* to) const {
  read_fixed(data<std::int64_t>() + begin, static_cast<std::size_t>(count), std::ldexp(1.0, unit_),
             to);
}

void FixedSum::read(std::int64_t begin, std::int64_t count, double* to) const {
  read_fixed(data<std::int64_t>() + begin, static_cast<std::size_t>(count), std::ldexp(1.0, unit_),
             to);
}

}  // namespace accrue::accum
