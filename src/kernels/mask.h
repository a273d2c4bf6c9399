#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace accrue::kernels {

/// The dropout mask of one sample at one site (and head), as a function of two positions: the
/// element at (row, column) is kept if word(row, column) / 2^32 is at least the probability.
/// Columns are in blocks of 64: word(row, 64 b + 16 w + i) is word w of Philox4x32-10 for the
/// counter (row, 16 b + i, tweak), so that a vector of counters gives vectors of adjacent columns.
struct DropoutMask {
  std::array<std::uint32_t, 2> key{}, tweak{};
  std::uint32_t last_dropped = 0;  ///< the largest word that is dropped
  double scale = 1;                ///< factor of the kept elements
};

inline constexpr std::size_t mask_block = 64;

/// The key of a mask besides the sample and the position.
struct DropoutSite {
  double probability = 0;  ///< in (0, 1)
  std::uint64_t seed = 0;
  std::int64_t window = 0;
  std::int64_t site = 0;
};

DropoutMask sample_mask(const DropoutSite& use, std::int64_t sample);
/// The mask of one head, derived from the sample's.
DropoutMask head_mask(const DropoutMask& sample, std::int64_t head);

}  // namespace accrue::kernels
