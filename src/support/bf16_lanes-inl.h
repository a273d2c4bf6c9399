// bf16 in memory and as the upper half of a float, vectorised; compiled once per instruction set.
#if defined(ACCRUE_SUPPORT_BF16_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_SUPPORT_BF16_LANES_INL_H_
#undef ACCRUE_SUPPORT_BF16_LANES_INL_H_
#else
#define ACCRUE_SUPPORT_BF16_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace accrue::HWY_NAMESPACE {

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_bf16(D d, const std::uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, D> half;
  const hn::Rebind<std::uint32_t, D> word;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(word, hn::LoadU(half, from))));
}

/// The bf16 in the upper half of each word.
template <class D, class Words>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> upper_halves(D d, Words bits) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint32_t, D> word;
  return hn::BitCast(d, hn::And(bits, hn::Set(word, 0xffff0000u)));
}

/// The bits whose upper half is the bf16 nearest to each float, ties to even; the lower half is
/// undefined. A NaN stays NaN only if its lower half is zero, as in results of bf16 operands or
/// invalid operations.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::Rebind<std::uint32_t, D>> nearest_bf16_bits(
    D, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint32_t, D> word;
  const auto bits = hn::BitCast(word, v);
  const auto odd = hn::TestBit(bits, hn::Set(word, 0x10000u));
  return hn::Add(bits, hn::IfThenElse(odd, hn::Set(word, 0x8000u), hn::Set(word, 0x7fffu)));
}

/// to[i] is the lower half of halves[i], whose upper half is zero.
template <class D, class Words>
HWY_INLINE void store_lower_halves(D, Words halves, std::uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, D> half;
  const hn::Rebind<std::int32_t, D> signed_word;
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(signed_word, halves)), half, to);
}

template <class D, class Words>
HWY_INLINE void store_upper_halves(D d, Words bits, std::uint16_t* to) {
  store_lower_halves(d, hwy::HWY_NAMESPACE::ShiftRight<16>(bits), to);
}

/// The bf16 nearest to each float, ties to even; every NaN becomes the quiet one.
template <class D>
HWY_INLINE void store_bf16(hwy::HWY_NAMESPACE::Vec<D> v, D d, std::uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint32_t, D> word;
  const auto nearest = hn::ShiftRight<16>(nearest_bf16_bits(d, v));
  const auto nan = hn::RebindMask(word, hn::IsNaN(v));
  store_lower_halves(d, hn::IfThenElse(nan, hn::Set(word, 0x7fc0u), nearest), to);
}

}  // namespace accrue::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
