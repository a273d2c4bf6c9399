// Dropout masks for the vectorised kernels; compiled once per instruction set.
#if defined(ACCRUE_KERNELS_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_MASK_INL_H_
#undef ACCRUE_KERNELS_MASK_INL_H_
#else
#define ACCRUE_KERNELS_MASK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/mask.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

/// value * factor in each 64-bit lane, of the value's lower half.
template <class D>
HWY_INLINE hn::Vec<D> multiply_low_half(D d, hn::Vec<D> value, std::uint32_t factor) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::Mul(hn::And(value, hn::Set(d, 0xffffffffU)), hn::Set(d, factor));
  } else {
    const hn::Repartition<std::uint32_t, D> half;
    return hn::MulEven(hn::BitCast(half, value), hn::Set(half, factor));
  }
}

/// to[2 i] and to[2 i + 1] = the lower halves of lane i of evens and odds.
template <class D>
HWY_INLINE void store_low_halves(D, hn::Vec<D> evens, hn::Vec<D> odds, std::uint32_t* to) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    to[0] = static_cast<std::uint32_t>(hn::GetLane(evens));
    to[1] = static_cast<std::uint32_t>(hn::GetLane(odds));
  } else {
    const hn::Repartition<std::uint32_t, D> half;
    const auto upper = hn::BitCast(half, hn::ShiftLeft<32>(odds));
    hn::StoreU(hn::OddEven(upper, hn::BitCast(half, evens)), half, to);
  }
}

/// Counters of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC11), one per 64-bit lane: only the
/// lower half of a lane counts, the upper one holds remainders of products.
template <class D>
struct Counters {
  hn::Vec<D> word0, word1, word2, word3;

  HWY_INLINE void round(D d, hn::Vec<D> key0, hn::Vec<D> key1) {
    const auto product0 = multiply_low_half(d, word0, 0xd2511f53U);
    const auto product1 = multiply_low_half(d, word2, 0xcd9e8d57U);
    word0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), word1), key0);
    word1 = product1;
    word2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), word3), key1);
    word3 = product0;
  }
};

/// Draws the words of columns [64 * block, 64 * block + 64) of `row`.
HWY_INLINE void draw_block(const DropoutMask& mask, std::size_t row, std::size_t block,
                           std::uint32_t* words) {
  constexpr std::size_t counters = mask_block / 4;
  const hn::CappedTag<std::uint64_t, counters / 2> d;
  const auto row_word = hn::Set(d, row), tweak0 = hn::Set(d, mask.tweak[0]),
             tweak1 = hn::Set(d, mask.tweak[1]);
  for (std::size_t start = 0; start < counters; start += 2 * hn::Lanes(d)) {
    const auto even =
        hn::Add(hn::Set(d, block * counters + start), hn::ShiftLeft<1>(hn::Iota(d, 0)));
    Counters<decltype(d)> evens{row_word, even, tweak0, tweak1};
    Counters<decltype(d)> odds{row_word, hn::Add(even, hn::Set(d, 1)), tweak0, tweak1};
    std::uint32_t key0 = mask.key[0], key1 = mask.key[1];
    for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9U, key1 += 0xbb67ae85U) {
      evens.round(d, hn::Set(d, key0), hn::Set(d, key1));
      odds.round(d, hn::Set(d, key0), hn::Set(d, key1));
    }
    store_low_halves(d, evens.word0, odds.word0, words + start);
    store_low_halves(d, evens.word1, odds.word1, words + counters + start);
    store_low_halves(d, evens.word2, odds.word2, words + 2 * counters + start);
    store_low_halves(d, evens.word3, odds.word3, words + 3 * counters + start);
  }
}

/// Draws the words of columns [begin, end) of `row`, in whole blocks, each to its index in a row of
/// words.
HWY_INLINE void draw_row(const DropoutMask& mask, std::size_t row, std::size_t begin,
                         std::size_t end, std::uint32_t* words) {
  for (std::size_t block = begin / mask_block; block * mask_block < end; ++block)
    draw_block(mask, row, block, words + block * mask_block);
}

/// The lanes that are kept, by the words of as many columns.
template <class D>
HWY_INLINE hn::Mask<D> kept(D d, const std::uint32_t* words, std::uint32_t last_dropped) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(std::uint32_t)) {
    const hn::RebindToUnsigned<D> word;
    return hn::RebindMask(d, hn::Gt(hn::LoadU(word, words), hn::Set(word, last_dropped)));
  } else {
    const hn::RebindToSigned<D> wide;
    const auto drawn =
        hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(hn::Rebind<std::uint32_t, D>(), words));
    return hn::RebindMask(d, hn::Gt(hn::BitCast(wide, drawn),
                                    hn::Set(wide, static_cast<std::int64_t>(last_dropped))));
  }
}

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
