// bf16 as the upper half of a float, vectorised; compiled once per instruction set.
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

/// The bits of `v` plus what makes their upper half the nearest bf16, ties to even.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::Rebind<std::uint32_t, D>> nearest_bf16_bits(
    D, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint32_t, D> word;
  const auto bits = hn::BitCast(word, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(word, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(word, 0x7fffu)));
}

template <class D, class Words>
HWY_INLINE void store_upper_halves(D, Words bits, std::uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, D> half;
  const hn::Rebind<std::int32_t, D> signed_word;
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(signed_word, hn::ShiftRight<16>(bits))), half, to);
}

}  // namespace accrue::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
