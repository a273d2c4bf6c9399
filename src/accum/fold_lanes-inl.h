// Loads, stores and magnitudes shared by the folds; compiled once per instruction set.
#if defined(ACCRUE_ACCUM_FOLD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_ACCUM_FOLD_LANES_INL_H_
#undef ACCRUE_ACCUM_FOLD_LANES_INL_H_
#else
#define ACCRUE_ACCUM_FOLD_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "support/bf16_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::accum::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using accrue::HWY_NAMESPACE::load_bf16;
using accrue::HWY_NAMESPACE::nearest_bf16_bits;
using accrue::HWY_NAMESPACE::store_upper_halves;
using accrue::HWY_NAMESPACE::upper_halves;

/// Loads floats, converted to D's element type if that is double.
template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* from) {
  if constexpr (sizeof(T) == sizeof(hn::TFromD<D>))
    return hn::LoadU(d, from);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
}

template <class D>
HWY_INLINE hn::Vec<D> zero_unless_below(D d, hn::Vec<D> v, hn::TFromD<D> limit) {
  return hn::IfThenElseZero(hn::Lt(hn::Abs(v), hn::Set(d, limit)), v);
}

/// Magnitudes ordered as integers: every NaN is above infinity.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> magnitude_bits(D, hn::Vec<D> v) {
  return hn::BitCast(hn::RebindToSigned<D>(), hn::Abs(v));
}

template <class T, class Bits>
HWY_INLINE double magnitude(Bits bits) {
  const double value = static_cast<double>(std::bit_cast<T>(bits));
  return value == value ? value : std::numeric_limits<double>::infinity();
}

}  // namespace accrue::accum::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
