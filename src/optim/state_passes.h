#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding_stream.h"

namespace accrue::optim {

/// These convert a range of a state from its stored format to fp32, and back. The result of an
/// element only depends on its block and place, not on the range or the instruction set.

/// Reads bf16, passed as its bits.
void decode_bf16(const std::uint16_t* from, std::size_t count, float* to);
/// Rounds up with the probability of the remainder. `first` is the index of from[0] within its
/// tensor, a multiple of kRoundingBlock.
void encode_bf16(const float* from, std::size_t count, const RoundingStream& stream,
                 std::uint64_t first, std::uint16_t* to);

/// 8-bit dynamic codes (dynamic_code.h) with one scale per kStateBlock elements: value = scale *
/// values[code]. A block whose largest magnitude is below the least normal float is zero.
void decode_codes(const std::uint8_t* codes, const float* scales, const float* values,
                  std::size_t count, float* to);
void encode_signed(const float* from, std::size_t count, std::uint8_t* codes, float* scales);
/// The values are >= 0.
void encode_unsigned(const float* from, std::size_t count, std::uint8_t* codes, float* scales);

}  // namespace accrue::optim
