#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue {

/// One of `world` owners among whom something is divided; {} owns it all.
struct Part {
  std::int64_t rank = 0;
  std::int64_t world = 1;
  bool operator==(const Part&) const = default;
};

/// Consecutive elements of a tensor, in the order of a contiguous one.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  bool operator==(const Stretch&) const = default;
};

/// Stretches begin at multiples of this many elements: a multiple of the blocks in which norms are
/// added up and optimizers' state is coded, so that no block has two owners.
inline constexpr std::int64_t kStretchGrain = 2048;

/// What `part` owns of tensor number `index`, of `elements` elements. The parts' stretches cover it
/// once, and differ by at most a grain; which of them is the longest goes round with `index`, so
/// that many small tensors are divided as evenly as a large one.
Stretch stretch_of(std::int64_t elements, std::size_t index, const Part& part);

}  // namespace accrue
