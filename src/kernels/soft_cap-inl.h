// Soft caps of scores and logits; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_SOFT_CAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_SOFT_CAP_INL_H_
#undef ACCRUE_KERNELS_SOFT_CAP_INL_H_
#else
#define ACCRUE_KERNELS_SOFT_CAP_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// cap * tanh(x / cap) of vectors, cap > 0.
template <class D>
struct SoftCap {
  using T = hn::TFromD<D>;
  hn::Vec<D> cap, inverse;

  HWY_INLINE SoftCap(D d, double value)
      : cap(hn::Set(d, static_cast<T>(value))), inverse(hn::Set(d, static_cast<T>(1 / value))) {}

  /// Highway's tanh treats NaN as a number.
  HWY_INLINE hn::Vec<D> apply(D d, hn::Vec<D> x) const {
    const auto capped = hn::Mul(cap, hn::Tanh(d, hn::Mul(x, inverse)));
    return hn::IfThenElse(hn::IsNaN(x), x, capped);
  }
  /// The derivative, of the capped value.
  HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> capped) const {
    const auto t = hn::Mul(capped, inverse);
    return hn::NegMulAdd(t, t, hn::Set(d, T(1)));
  }
};

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
