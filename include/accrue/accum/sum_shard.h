#pragma once

#include <cstdint>
#include <vector>

#include "accrue/core/rank_slice.h"

namespace accrue::accum {

/// Gradient sums that are divided among ranks: each holds element_range_of(elements, i, slice()) of
/// the buffer's entry i. Other elements of its buffer are not sums of all ranks.
///
/// The calls are collectives: all ranks make the same ones, with equally many numbers. They throw
/// if a rank is missing.
class SumShard {
 public:
  virtual ~SumShard() = default;
  virtual RankSlice slice() const = 0;
  /// Replaces each number by its sum, or maximum, over the ranks, with the same result on all.
  virtual void add_up(std::vector<double>& numbers) const = 0;
  virtual void take_largest(std::vector<std::int64_t>& numbers) const = 0;
};

}  // namespace accrue::accum
