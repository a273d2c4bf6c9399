#include "fold_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fold_stochastic.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first: it includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "fold_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::accum::HWY_NAMESPACE {

template <class D>
struct Words {
  hn::Vec<D> w0, w1, w2, w3;
};

/// The high and low words of a * multiplier.
template <class D>
HWY_INLINE void multiply(D d, hn::Vec<D> a, std::uint32_t multiplier, hn::Vec<D>& high,
                         hn::Vec<D>& low) {
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

/// Philox4x32-10 (Salmon et al., SC11), one counter a lane.
template <class D>
HWY_INLINE Words<D> philox_lanes(D d, Words<D> counter, std::array<std::uint32_t, 2> key) {
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

template <bool kAdd>
struct StochasticFold {
  const float* from;
  std::uint16_t* sum;
  RoundingStream stream;

  /// kRoundingBlock elements; `block` is their number within the slot.
  HWY_INLINE std::int32_t operator()(std::size_t begin, std::uint64_t block) const {
    using D = hn::CappedTag<std::uint32_t, 16>;
    const D d;
    const hn::RebindToSigned<decltype(d)> di;
    const std::size_t lanes = hn::Lanes(d);
    auto largest = hn::Zero(di);
    for (std::size_t lane = 0; lane < 16; lane += lanes) {
      const std::uint64_t counter = block * 16 + lane;
      const Words<D> words =
          philox_lanes(d,
                       {hn::Iota(d, static_cast<std::uint32_t>(counter)),
                        hn::Set(d, static_cast<std::uint32_t>(counter >> 32)),
                        hn::Set(d, stream.tweak[0]), hn::Set(d, stream.tweak[1])},
                       stream.key);
      std::size_t i = begin + lane;
      for (const auto word : {words.w0, words.w1, words.w2, words.w3}) {
        largest = hn::Max(largest, round(d, i, hn::And(word, hn::Set(d, 0xffffu))));
        largest = hn::Max(largest, round(d, i + 16, hn::ShiftRight<16>(word)));
        i += 32;
      }
    }
    return hn::GetLane(hn::MaxOfLanes(di, largest));
  }

 private:
  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> round(D d, std::size_t i, hn::Vec<D> random) const {
    const hn::Rebind<float, D> df;
    const auto x = load(df, from + i);
    const auto kept = zero_unless_below(df, x, std::numeric_limits<float>::infinity());
    const auto total = kAdd ? hn::Add(load_bf16(df, sum + i), kept) : kept;
    store_upper_halves(df, hn::Add(hn::BitCast(d, total), random), sum + i);
    return magnitude_bits(df, x);
  }
};

template <bool kAdd>
double stochastic_range(const float* from, std::uint16_t* sum, std::size_t count,
                        const RoundingStream& stream, std::uint64_t first) {
  std::uint64_t block = first / kRoundingBlock;
  std::int32_t largest = 0;
  std::size_t i = 0;
  const StochasticFold<kAdd> fold{from, sum, stream};
  for (; i + kRoundingBlock <= count; i += kRoundingBlock)
    largest = std::max(largest, fold(i, block++));
  if (i < count) {
    float padded[kRoundingBlock] = {};
    std::uint16_t rounded[kRoundingBlock] = {};
    std::memcpy(padded, from + i, (count - i) * sizeof(float));
    std::memcpy(rounded, sum + i, (count - i) * sizeof(std::uint16_t));
    largest = std::max(largest, StochasticFold<kAdd>{padded, rounded, stream}(0, block));
    std::memcpy(sum + i, rounded, (count - i) * sizeof(std::uint16_t));
  }
  return magnitude<float>(largest);
}

double bf16_stochastic(const float* from, std::uint16_t* sum, std::size_t count, bool add,
                       const RoundingStream& stream, std::uint64_t first) {
  return add ? stochastic_range<true>(from, sum, count, stream, first)
             : stochastic_range<false>(from, sum, count, stream, first);
}

}  // namespace accrue::accum::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::accum {

HWY_EXPORT(bf16_stochastic);

double fold_bf16_stochastic(const float* from, std::uint16_t* sum, std::size_t count, bool add,
                            const RoundingStream& stream, std::uint64_t first) {
  return HWY_DYNAMIC_DISPATCH(bf16_stochastic)(from, sum, count, add, stream, first);
}

}  // namespace accrue::accum
#endif
