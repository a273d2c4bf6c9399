#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue {

/// One of `world` owners among whom something is divided; {} owns it all.
struct RankSlice {
  std::int64_t rank = 0;
  std::int64_t world = 1;
  bool operator==(const RankSlice&) const = default;
};

/// Consecutive elements of a tensor, in the order of a contiguous one.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  bool operator==(const ElementRange&) const = default;
};

/// Ranges begin at multiples of this many elements: a multiple of the blocks in which norms are
/// added up and optimizers' state is coded, so that no block has two owners.
inline constexpr std::int64_t kRangeGrain = 2048;

/// What `slice` owns of tensor number `index`, of `elements` elements. The slices' ranges cover it
/// once, and differ by at most a grain; which of them is the longest goes round with `index`, so
/// that many small tensors are divided as evenly as a large one.
ElementRange element_range_of(std::int64_t elements, std::size_t index, const RankSlice& slice);

}  // namespace accrue
