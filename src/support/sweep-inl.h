// Passes over arrays, vectorised; compiled once per instruction set.
#if defined(ACCRUE_SUPPORT_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_SUPPORT_SWEEP_INL_H_
#undef ACCRUE_SUPPORT_SWEEP_INL_H_
#else
#define ACCRUE_SUPPORT_SWEEP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace accrue::HWY_NAMESPACE {

/// Calls op(d, i) for all i in [0, count), by vectors of T, and one by one for the rest.
template <class T = float, class Op>
HWY_INLINE void sweep(std::size_t count, const Op op) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) op(d, i);
  for (; i < count; ++i) op(hn::CappedTag<T, 1>(), i);
}

}  // namespace accrue::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
