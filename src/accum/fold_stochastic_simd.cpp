#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "accum/fold_lanes-inl.h"
#include "accum/fold_passes.h"
#include "support/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::accum::HWY_NAMESPACE {

using accrue::HWY_NAMESPACE::for_random_halves;

template <bool kAdd>
struct StochasticFold {
  const float* from;
  std::uint16_t* sum;
  RoundingStream stream;

  /// kRoundingBlock elements; `block` is their number within the slot.
  HWY_INLINE std::int32_t operator()(std::size_t begin, std::uint64_t block) const {
    const hn::CappedTag<std::int32_t, 16> di;
    auto largest = hn::Zero(di);
    for_random_halves(stream, block, [&](auto d, std::size_t i, auto random) HWY_ATTR {
      largest = hn::Max(largest, round(d, begin + i, random));
    });
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
