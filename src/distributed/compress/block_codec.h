#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue::distributed {

/// A lossy code of fp32 values, block by block of kCodecBlock; the last block may be shorter, and
/// takes the same number of bytes. An element's code depends only on its block, not on the
/// instruction set. A block with a value that is not finite decodes to at least one that is not.
struct BlockCodec {
  std::size_t block_bytes;
  void (*encode)(const float* from, std::size_t count, std::uint8_t* to);
  void (*decode_add)(const std::uint8_t* from, std::size_t count, float* to);  ///< to += value
  /// Whether all values that `count` elements can decode to are finite. A code that no encoder
  /// writes, whose scale could take an element out of range, counts as not finite.
  bool (*is_finite)(const std::uint8_t* from, std::size_t count);
};
inline constexpr std::size_t kCodecBlock = 256;

/// Encodes each value as the nearest bf16, ties to even.
BlockCodec bf16_codec();

/// Encodes a block as a scale in fp32 and, for each element, the nearest of its 255 multiples -127
/// ... 127. The block's largest magnitude is 127 times the scale. A block whose largest is below
/// 2^-100 is zero.
BlockCodec int8_codec();
inline constexpr float kMostSteps = 127;
inline constexpr std::size_t kInt8BlockBytes = sizeof(float) + kCodecBlock;

}  // namespace accrue::distributed
