#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue {

/// The share of one of `world` owners of something divided; {} owns all of it.
struct RankSlice {
  std::int64_t rank = 0;
  std::int64_t world = 1;
  bool operator==(const RankSlice&) const = default;
};

/// Consecutive elements of a tensor, in contiguous order.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  bool operator==(const ElementRange&) const = default;
};

/// Ranges begin at multiples of this many elements. It is a multiple of the block sizes used for
/// norms and for coded optimizer state, so no block has two owners.
inline constexpr std::int64_t kRangeGrain = 2048;

/// The elements that `slice` owns of tensor number `index`, which has `elements` elements. The
/// slices' ranges cover the tensor once and differ in length by at most one grain. The longest
/// range rotates with `index`, so many small tensors are divided as evenly as a large one.
ElementRange element_range_of(std::int64_t elements, std::size_t index, const RankSlice& slice);

}  // namespace accrue
