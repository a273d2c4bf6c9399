#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/rng.h"

namespace accrue {

/// The source of the random bits for stochastic rounding. Element e of a tensor takes those of
/// counter (e / 128) * 16 + e % 16 of Philox4x32-10: half (e / 16) % 8 of its four words, low
/// halves first. They depend only on the element, whatever the instruction set and the range.
struct RoundingStream {
  std::array<std::uint32_t, 2> key{};
  std::array<std::uint32_t, 2> tweak{};  ///< the upper two words of every counter
};
inline constexpr std::size_t kRoundingBlock = 128;

/// The stream of one rounding of one tensor: `use` separates it from other uses of the seed, `what`
/// identifies the tensor and its rounding.
inline RoundingStream rounding_stream(std::uint64_t seed, std::uint32_t use,
                                      const std::array<std::uint32_t, 4>& what) {
  const auto words = philox(
      what, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ use});
  return {{words[0], words[1]}, {words[2], words[3]}};
}

}  // namespace accrue
