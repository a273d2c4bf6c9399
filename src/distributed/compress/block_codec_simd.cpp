#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "distributed/compress/block_codec.h"
#include "support/bf16_lanes-inl.h"
#include "support/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::distributed::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using accrue::HWY_NAMESPACE::load_bf16;
using accrue::HWY_NAMESPACE::store_bf16;
using accrue::HWY_NAMESPACE::sweep;

using Floats = hn::ScalableTag<float>;

// bf16.

struct EncodeBf16 {
  const float* from;
  std::uint16_t* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    store_bf16(hn::LoadU(d, from + i), d, to + i);
  }
};

struct DecodeAddBf16 {
  const std::uint16_t* from;
  float* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), load_bf16(d, from + i)), d, to + i);
  }
};

void bf16_encode(const float* from, std::size_t count, std::uint8_t* to) {
  sweep(count, EncodeBf16{from, reinterpret_cast<std::uint16_t*>(to)});
}
void bf16_decode_add(const std::uint8_t* from, std::size_t count, float* to) {
  sweep(count, DecodeAddBf16{reinterpret_cast<const std::uint16_t*>(from), to});
}

// int8.

/// The bits of the largest magnitude, as an integer; a NaN's are above all others.
HWY_INLINE std::int32_t largest_bits(const float* from, std::size_t count) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(d, from + i))));
  std::int32_t result = hn::GetLane(hn::MaxOfLanes(di, largest));
  for (; i < count; ++i) result = std::max(result, std::bit_cast<std::int32_t>(std::fabs(from[i])));
  return result;
}

struct EncodeInt8 {
  const float* from;
  float factor;
  std::int8_t* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::Rebind<std::int8_t, D> byte;
    const auto steps = hn::NearestInt(hn::Mul(hn::LoadU(d, from + i), hn::Set(d, factor)));
    hn::StoreU(hn::DemoteTo(byte, steps), byte, to + i);
  }
};

struct DecodeAddInt8 {
  const std::int8_t* from;
  float scale;
  float* to;
  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const hn::RebindToSigned<D> word;
    const auto steps = hn::PromoteTo(word, hn::LoadU(hn::Rebind<std::int8_t, D>(), from + i));
    const auto value = hn::Mul(hn::ConvertTo(d, steps), hn::Set(d, scale));
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), value), d, to + i);
  }
};

constexpr float kLeastMagnitude = 0x1p-100f;

HWY_INLINE void encode_int8_block(const float* from, std::size_t count, std::uint8_t* to) {
  const float largest = std::bit_cast<float>(largest_bits(from, count));
  const bool is_finite = largest <= std::numeric_limits<float>::max();
  const bool counts = is_finite && largest >= kLeastMagnitude;
  const float none = is_finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  const float scale = counts ? largest / kMostSteps : none;
  std::memcpy(to, &scale, sizeof scale);
  auto* const codes = reinterpret_cast<std::int8_t*>(to + sizeof scale);
  if (counts)
    sweep(count, EncodeInt8{from, kMostSteps / largest, codes});
  else
    std::memset(codes, 0, count);
}

void int8_encode(const float* from, std::size_t count, std::uint8_t* to) {
  for (std::size_t begin = 0; begin < count; begin += kCodecBlock, to += kInt8BlockBytes)
    encode_int8_block(from + begin, std::min(kCodecBlock, count - begin), to);
}

void int8_decode_add(const std::uint8_t* from, std::size_t count, float* to) {
  for (std::size_t begin = 0; begin < count; begin += kCodecBlock, from += kInt8BlockBytes) {
    float scale;
    std::memcpy(&scale, from, sizeof scale);
    sweep(std::min(kCodecBlock, count - begin),
          DecodeAddInt8{reinterpret_cast<const std::int8_t*>(from + sizeof scale), scale,
                        to + begin});
  }
}

}  // namespace accrue::distributed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::distributed {

HWY_EXPORT(bf16_encode);
HWY_EXPORT(bf16_decode_add);
HWY_EXPORT(int8_encode);
HWY_EXPORT(int8_decode_add);

namespace {

bool is_finite_bf16(const std::uint8_t* from, std::size_t count) {
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    finite &= (bits & 0x7f80) != 0x7f80;
  }
  return finite;
}

/// No encoder here writes -128, but it can arrive.
constexpr float kMostStepsOfACode = 128;

bool is_finite_int8(const std::uint8_t* from, std::size_t count) {
  bool finite = true;
  for (std::size_t begin = 0; begin < count; begin += kCodecBlock, from += kInt8BlockBytes) {
    float scale;
    std::memcpy(&scale, from, sizeof scale);
    finite &= std::isfinite(kMostStepsOfACode * scale);
  }
  return finite;
}

void encode_bf16(const float* from, std::size_t count, std::uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(bf16_encode)(from, count, to);
}
void decode_add_bf16(const std::uint8_t* from, std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(bf16_decode_add)(from, count, to);
}
void encode_int8(const float* from, std::size_t count, std::uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(int8_encode)(from, count, to);
}
void decode_add_int8(const std::uint8_t* from, std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(int8_decode_add)(from, count, to);
}

}  // namespace

BlockCodec bf16_codec() {
  return {kCodecBlock * sizeof(std::uint16_t), encode_bf16, decode_add_bf16, is_finite_bf16};
}

BlockCodec int8_codec() { return {kInt8BlockBytes, encode_int8, decode_add_int8, is_finite_int8}; }

}  // namespace accrue::distributed
#endif
