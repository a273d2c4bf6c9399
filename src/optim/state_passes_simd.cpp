#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "optim/dynamic_code.h"
#include "optim/state_passes.h"
#include "support/bf16_lanes-inl.h"
#include "support/philox-inl.h"
#include "support/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::optim::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using accrue::HWY_NAMESPACE::for_random_halves;
using accrue::HWY_NAMESPACE::load_bf16;
using accrue::HWY_NAMESPACE::store_upper_halves;
using accrue::HWY_NAMESPACE::sweep;

using Floats = hn::ScalableTag<float>;
using OneFloat = hn::CappedTag<float, 1>;

// bf16.

struct DecodeBf16 {
  const std::uint16_t* from;
  float* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(load_bf16(d, from + i), d, to + i);
  }
};

void bf16_decode(const std::uint16_t* from, std::size_t count, float* to) {
  sweep(count, DecodeBf16{from, to});
}

/// kRoundingBlock elements.
HWY_INLINE void round_block(const float* from, const RoundingStream& stream, std::uint64_t block,
                            std::uint16_t* to) {
  for_random_halves(stream, block, [&](auto d, std::size_t i, auto random) HWY_ATTR {
    const hn::Rebind<float, decltype(d)> df;
    const auto bits = hn::BitCast(d, hn::LoadU(df, from + i));
    store_upper_halves(df, hn::Add(bits, random), to + i);
  });
}

void bf16_encode(const float* from, std::size_t count, const RoundingStream& stream,
                 std::uint64_t first, std::uint16_t* to) {
  std::uint64_t block = first / kRoundingBlock;
  std::size_t i = 0;
  for (; i + kRoundingBlock <= count; i += kRoundingBlock)
    round_block(from + i, stream, block++, to + i);
  if (i == count) return;
  float padded[kRoundingBlock] = {};
  std::uint16_t rounded[kRoundingBlock];
  std::memcpy(padded, from + i, (count - i) * sizeof(float));
  round_block(padded, stream, block, rounded);
  std::memcpy(to + i, rounded, (count - i) * sizeof(std::uint16_t));
}

// 8-bit codes.

struct DecodeCodes {
  const std::uint8_t* codes;
  const float* values;
  float scale;
  float* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> index;
    const hn::Rebind<std::uint8_t, D> byte;
    const auto at = hn::PromoteTo(index, hn::LoadU(byte, codes + i));
    hn::StoreU(hn::Mul(hn::GatherIndex(d, values, at), hn::Set(d, scale)), d, to + i);
  }
};

void codes_decode(const std::uint8_t* codes, const float* scales, const float* values,
                  std::size_t count, float* to) {
  for (std::size_t begin = 0; begin < count; begin += kStateBlock)
    sweep(std::min(kStateBlock, count - begin),
          DecodeCodes{codes + begin, values, *scales++, to + begin});
}

HWY_INLINE float largest_magnitude(const float* from, std::size_t count) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    largest = hn::Max(largest, hn::Abs(hn::LoadU(d, from + i)));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i)
    result = std::max(result, hn::GetLane(hn::Abs(hn::Set(OneFloat(), from[i]))));
  return result;
}

/// The interval of magnitudes in [0, 1]: the code, counted from 1.
template <class D>
HWY_INLINE hn::Vec<D> interval(D d, hn::Vec<D> magnitude, float first) {
  auto to_decade = hn::Set(d, 1e6f), intervals = hn::Set(d, first);
  float lower = 1e-6f, factor = 1e5f, many = 2 * first;
  for (int decade = 1; decade < kDecades; ++decade, lower *= 10, factor /= 10, many *= 2) {
    const auto above = hn::Ge(magnitude, hn::Set(d, lower));
    to_decade = hn::IfThenElse(above, hn::Set(d, factor), to_decade);
    intervals = hn::IfThenElse(above, hn::Set(d, many), intervals);
  }
  const auto place = hn::Mul(hn::Sub(hn::Mul(magnitude, to_decade), hn::Set(d, 0.1f)),
                             hn::Mul(intervals, hn::Set(d, 1 / 0.9f)));
  const auto last = hn::Sub(intervals, hn::Set(d, 1.0f));
  const auto within = hn::Clamp(hn::Floor(place), hn::Zero(d), last);
  return hn::Add(hn::Add(hn::Sub(intervals, hn::Set(d, first)), within), hn::Set(d, 1.0f));
}

template <class D>
HWY_INLINE void store_codes(D, hn::Vec<D> codes, std::uint8_t* to) {
  const hn::Rebind<std::uint8_t, D> byte;
  hn::StoreU(hn::DemoteTo(byte, hn::ConvertTo(hn::RebindToSigned<D>(), codes)), byte, to);
}

struct EncodeSigned {
  static constexpr float kLargest = kLargestSigned;
  const float* from;
  float factor;
  std::uint8_t* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto value = hn::LoadU(d, from + i);
    const auto magnitude = hn::Mul(hn::Abs(value), hn::Set(d, factor));
    // Below half of the least code's value, zero is nearer.
    const auto counts = hn::Ge(magnitude, hn::Set(d, kSignedValues[kSignedZero + 1] / 2));
    const auto code = hn::IfThenElseZero(counts, interval(d, magnitude, 1));
    const auto zero = hn::Set(d, static_cast<float>(kSignedZero));
    store_codes(d, hn::Add(zero, hn::CopySign(code, value)), to + i);
  }
};

struct EncodeUnsigned {
  static constexpr float kLargest = kLargestUnsigned;
  const float* from;
  float factor;
  std::uint8_t* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto value = hn::LoadU(d, from + i);
    const auto code = interval(d, hn::Mul(value, hn::Set(d, factor)), 2);
    store_codes(d, hn::IfThenElseZero(hn::Gt(value, hn::Zero(d)), code), to + i);
  }
};

template <class Encode>
HWY_INLINE void encode(const float* from, std::size_t count, std::uint8_t* codes, float* scales) {
  for (std::size_t begin = 0; begin < count; begin += kStateBlock) {
    const std::size_t size = std::min(kStateBlock, count - begin);
    const float largest = largest_magnitude(from + begin, size);
    const bool counts = !(largest < std::numeric_limits<float>::min());
    *scales++ = counts ? largest / Encode::kLargest : 0;
    sweep(size, Encode{from + begin, counts ? Encode::kLargest / largest : 0, codes + begin});
  }
}

void signed_encode(const float* from, std::size_t count, std::uint8_t* codes, float* scales) {
  encode<EncodeSigned>(from, count, codes, scales);
}
void unsigned_encode(const float* from, std::size_t count, std::uint8_t* codes, float* scales) {
  encode<EncodeUnsigned>(from, count, codes, scales);
}

}  // namespace accrue::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::optim {

HWY_EXPORT(bf16_decode);
HWY_EXPORT(bf16_encode);
HWY_EXPORT(codes_decode);
HWY_EXPORT(signed_encode);
HWY_EXPORT(unsigned_encode);

void decode_bf16(const std::uint16_t* from, std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(bf16_decode)(from, count, to);
}
void encode_bf16(const float* from, std::size_t count, const RoundingStream& stream,
                 std::uint64_t first, std::uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(bf16_encode)(from, count, stream, first, to);
}
void decode_codes(const std::uint8_t* codes, const float* scales, const float* values,
                  std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(codes_decode)(codes, scales, values, count, to);
}
void encode_signed(const float* from, std::size_t count, std::uint8_t* codes, float* scales) {
  HWY_DYNAMIC_DISPATCH(signed_encode)(from, count, codes, scales);
}
void encode_unsigned(const float* from, std::size_t count, std::uint8_t* codes, float* scales) {
  HWY_DYNAMIC_DISPATCH(unsigned_encode)(from, count, codes, scales);
}

}  // namespace accrue::optim
#endif
