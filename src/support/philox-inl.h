// Random bits for stochastic rounding, vectorised; compiled once per instruction set.
#if defined(ACCRUE_SUPPORT_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_SUPPORT_PHILOX_INL_H_
#undef ACCRUE_SUPPORT_PHILOX_INL_H_
#else
#define ACCRUE_SUPPORT_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/rounding_stream.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::HWY_NAMESPACE {

template <class D>
struct PhiloxWords {
  hwy::HWY_NAMESPACE::Vec<D> w0, w1, w2, w3;
};

/// The high and low words of a * multiplier.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE void multiply(D d, V a, std::uint32_t multiplier, V& high, V& low) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (hn::MaxLanes(D()) == 1) {
    const std::uint64_t product = std::uint64_t{hn::GetLane(a)} * multiplier;
    high = hn::Set(d, static_cast<std::uint32_t>(product >> 32));
    low = hn::Set(d, static_cast<std::uint32_t>(product));
  } else {
    const hn::RepartitionToWide<D> wide;
    const auto m = hn::Set(d, multiplier);
    const auto even = hn::MulEven(a, m);
    const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), m);
    high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
    low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  }
}

/// Philox4x32-10 (Salmon et al., SC11), one counter per lane.
template <class D>
HWY_INLINE PhiloxWords<D> philox_lanes(D d, PhiloxWords<D> counter,
                                       std::array<std::uint32_t, 2> key) {
  namespace hn = hwy::HWY_NAMESPACE;
  for (int round = 0; round < 10; ++round) {
    hn::Vec<D> high0, low0, high1, low1;
    multiply(d, counter.w0, 0xD2511F53u, high0, low0);
    multiply(d, counter.w2, 0xCD9E8D57u, high1, low1);
    counter = {hn::Xor(hn::Xor(high1, counter.w1), hn::Set(d, key[0])), low1,
               hn::Xor(hn::Xor(high0, counter.w3), hn::Set(d, key[1])), low0};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Calls take(d, i, random) for each vector of a block's kRoundingBlock elements, where i is the
/// index of its first element in the block, with 16 random bits per lane in the lower halves;
/// `block` is the block's number.
template <class Take>
HWY_INLINE void for_random_halves(const RoundingStream& stream, std::uint64_t block,
                                  const Take& take) {
  namespace hn = hwy::HWY_NAMESPACE;
  using D = hn::CappedTag<std::uint32_t, 16>;
  const D d;
  for (std::size_t lane = 0; lane < 16; lane += hn::Lanes(d)) {
    const std::uint64_t counter = block * 16 + lane;
    const PhiloxWords<D> words =
        philox_lanes(d,
                     {hn::Iota(d, static_cast<std::uint32_t>(counter)),
                      hn::Set(d, static_cast<std::uint32_t>(counter >> 32)),
                      hn::Set(d, stream.tweak[0]), hn::Set(d, stream.tweak[1])},
                     stream.key);
    std::size_t i = lane;
    for (const auto word : {words.w0, words.w1, words.w2, words.w3}) {
      take(d, i, hn::And(word, hn::Set(d, 0xffffu)));
      take(d, i + 16, hn::ShiftRight<16>(word));
      i += 32;
    }
  }
}

}  // namespace accrue::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
