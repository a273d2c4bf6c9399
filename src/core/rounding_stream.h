#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/rng.h"

namespace accrue {

/// Where the random bits of stochastic rounding come from. Element e of a tensor takes those of
/// counter (e / 128) * 16 + e % 16 of Philox4x32-10: half (e / 16) % 8 of its four words, low
/// halves first. So they depend on the element alone, whatever the instruction set and the range.
struct RoundingStream {
  std::array<std::uint32_t, 2> key{};
  std::array<std::uint32_t, 2> tweak{};  ///< the upper two words of every counter
};
inline constexpr std::size_t kRoundingBlock = 128;

/// The stream of one rounding of one tensor: `use` separates it from other uses of the seed, `what`
/// says which tensor and which of its roundings.
inline RoundingStream rounding_stream(std::uint64_t seed, std::uint32_t use,
                                      const std::array<std::uint32_t, 4>& what) {
  const auto words = philox(
      what, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ use});
  return {{words[0], words[1]}, {words[2], words[3]}};
}

}  // namespace accrue
