#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue::kernels {

/// Weights in blocks that share scales, in ggml's formats (ggml-common.h, github.com/ggml-org).
/// Numbers are little-endian, scales fp16.
enum class BlockFormat {
  q8_0,  ///< 32 integers of 8 bits and a scale
  q4_k,  ///< 256 numbers of 4 bits; each 32 of them have a scale and a minimum of 6 bits
  q5_k,  ///< like q4_k, with 5 bits
  q6_k,  ///< 256 numbers of 6 bits; each 16 of them have a scale of 8 bits
};

/// The number of values in one block, and its size.
struct BlockSize {
  std::int64_t elements, bytes;
};

constexpr BlockSize size_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::q8_0:
      return {32, 34};
    case BlockFormat::q4_k:
      return {256, 144};
    case BlockFormat::q5_k:
      return {256, 176};
    case BlockFormat::q6_k:
      break;
  }
  return {256, 210};
}

/// Unpacks `count` blocks into the fp32 values of ggml's reference, with the same bits on any
/// instruction set; a NaN scale gives NaN values. Single-threaded, vectorised; pointers may be
/// unaligned.
void unpack_blocks(BlockFormat format, const void* blocks, std::int64_t count, float* out);
/// The same values rounded to the nearest bf16, ties to even.
void unpack_blocks(BlockFormat format, const void* blocks, std::int64_t count, std::uint16_t* out);

/// Packs 32 * `count` finite values into blocks of q8_0, with the bytes of ggml's reference. A
/// block whose largest magnitude is above 127 * 65504 has an infinite scale.
void pack_q8_0(const float* values, std::int64_t count, void* blocks);

/// Packs 256 * `count` finite values into blocks of q4_k. For each 32 values, scale and minimum are
/// searched for the least sum of squared errors: the values are rounded in several ranges, and
/// scale and minimum fitted to the rounded numbers (docs/notes/blocks.md compares the error with
/// that of the plain range).
void pack_q4_k(const float* values, std::int64_t count, void* blocks);

}  // namespace accrue::kernels
