#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "kernels/blocks/blocks.h"
#include "support/bf16_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace accrue::HWY_NAMESPACE;

/// At most 16 lanes, a divisor of the elements of every scale.
using Floats = hn::CappedTag<float, 16>;
using Words = hn::Rebind<std::int32_t, Floats>;

/// The fp16 at `from`, which fp32 represents exactly.
HWY_INLINE float half_at(const std::uint8_t* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  constexpr std::uint32_t infinity = 0x7c00u;
  if (magnitude >= infinity)
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // The exponent's bias is corrected by a product, which is exact also for subnormal numbers.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

HWY_INLINE void put(hn::Vec<Floats> v, float* to) { hn::StoreU(v, Floats(), to); }
HWY_INLINE void put(hn::Vec<Floats> v, std::uint16_t* to) { store_bf16(v, Floats(), to); }

HWY_INLINE hn::Vec<Words> bytes_at(const std::uint8_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<std::uint8_t, Floats>(), from));
}

template <class Out>
void unpack_q8_0(const std::uint8_t* block, Out* out) {
  const hn::Rebind<std::int8_t, Floats> bytes;
  const auto scale = hn::Set(Floats(), half_at(block));
  const auto* numbers = reinterpret_cast<const std::int8_t*>(block + 2);
  for (std::size_t i = 0; i < 32; i += hn::Lanes(Floats())) {
    const auto number = hn::PromoteTo(Words(), hn::LoadU(bytes, numbers + i));
    put(hn::Mul(hn::ConvertTo(Floats(), number), scale), out + i);
  }
}

/// The scale and the minimum of eight groups, 6 bits each in 12 bytes.
struct Scales {
  std::uint8_t scale, minimum;
};
HWY_INLINE Scales scales_of(const std::uint8_t* packed, std::size_t group) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(packed[i]); };
  if (group < 4)
    return {static_cast<std::uint8_t>(byte(group) & 63),
            static_cast<std::uint8_t>(byte(group + 4) & 63)};
  return {static_cast<std::uint8_t>((byte(group + 4) & 15) | (byte(group - 4) >> 6 << 4)),
          static_cast<std::uint8_t>((byte(group + 4) >> 4) | (byte(group) >> 6 << 4))};
}

/// q4_k, and q5_k if there are `fifth_bits`: bit g of byte i belongs to number i of group g.
template <class Out>
HWY_INLINE void unpack_by_minima(const std::uint8_t* block, const std::uint8_t* fifth_bits,
                                 const std::uint8_t* numbers, Out* out) {
  const float scale = half_at(block), minimum = half_at(block + 2);
  const auto low = hn::Set(Words(), 15);
  for (std::size_t group = 0; group < 8; ++group) {
    const Scales own = scales_of(block + 4, group);
    const auto by = hn::Set(Floats(), scale * static_cast<float>(own.scale));
    const auto less = hn::Set(Floats(), minimum * static_cast<float>(own.minimum));
    const std::uint8_t* from = numbers + group / 2 * 32;
    for (std::size_t i = 0; i < 32; i += hn::Lanes(Floats())) {
      const auto pair = bytes_at(from + i);
      auto number = group % 2 == 0 ? hn::And(pair, low) : hn::ShiftRight<4>(pair);
      if (fifth_bits != nullptr) {
        const auto bit =
            hn::And(hn::ShiftRightSame(bytes_at(fifth_bits + i), static_cast<int>(group)),
                    hn::Set(Words(), 1));
        number = hn::Or(number, hn::ShiftLeft<4>(bit));
      }
      put(hn::Sub(hn::Mul(by, hn::ConvertTo(Floats(), number)), less), out + group * 32 + i);
    }
  }
}

template <class Out>
void unpack_q4_k(const std::uint8_t* block, Out* out) {
  unpack_by_minima(block, nullptr, block + 16, out);
}

template <class Out>
void unpack_q5_k(const std::uint8_t* block, Out* out) {
  unpack_by_minima(block, block + 16, block + 48, out);
}

template <class Out>
void unpack_q6_k(const std::uint8_t* block, Out* out) {
  const float scale = half_at(block + 208);
  const auto* scales = reinterpret_cast<const std::int8_t*>(block + 192);
  // Half of a block: 128 numbers, whose lower four bits are in 64 bytes and upper two in 32.
  for (std::size_t group = 0; group < 8; ++group) {
    const std::size_t half = group / 4, quarter = group % 4;
    const std::uint8_t* lower = block + half * 64 + quarter % 2 * 32;
    const std::uint8_t* upper = block + 128 + half * 32;
    for (std::size_t i = 0; i < 32; i += hn::Lanes(Floats())) {
      const auto by = hn::Set(Floats(), scale * static_cast<float>(scales[group * 2 + i / 16]));
      const auto pair = bytes_at(lower + i);
      const auto low = quarter < 2 ? hn::And(pair, hn::Set(Words(), 15)) : hn::ShiftRight<4>(pair);
      const auto high =
          hn::And(hn::ShiftRightSame(bytes_at(upper + i), static_cast<int>(2 * quarter)),
                  hn::Set(Words(), 3));
      const auto number = hn::Sub(hn::Or(low, hn::ShiftLeft<4>(high)), hn::Set(Words(), 32));
      put(hn::Mul(by, hn::ConvertTo(Floats(), number)), out + group * 32 + i);
    }
  }
}

template <class Out>
void unpack_of(BlockFormat format, const void* blocks, std::int64_t count, Out* out) {
  const auto* from = static_cast<const std::uint8_t*>(blocks);
  const BlockSize size = size_of(format);
  for (std::int64_t block = 0; block < count; ++block, from += size.bytes, out += size.elements) {
    if (format == BlockFormat::q8_0) unpack_q8_0(from, out);
    if (format == BlockFormat::q4_k) unpack_q4_k(from, out);
    if (format == BlockFormat::q5_k) unpack_q5_k(from, out);
    if (format == BlockFormat::q6_k) unpack_q6_k(from, out);
  }
}

void unpack_to_fp32(BlockFormat format, const void* blocks, std::int64_t count, float* out) {
  unpack_of(format, blocks, count, out);
}

void unpack_to_bf16(BlockFormat format, const void* blocks, std::int64_t count,
                    std::uint16_t* out) {
  unpack_of(format, blocks, count, out);
}

}  // namespace accrue::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels {

HWY_EXPORT(unpack_to_fp32);
HWY_EXPORT(unpack_to_bf16);

void unpack_blocks(BlockFormat format, const void* blocks, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(unpack_to_fp32)(format, blocks, count, out);
}

void unpack_blocks(BlockFormat format, const void* blocks, std::int64_t count, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(unpack_to_bf16)(format, blocks, count, out);
}

}  // namespace accrue::kernels
#endif
