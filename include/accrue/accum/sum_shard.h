#pragma once

#include <cstdint>
#include <vector>

#include "accrue/core/rank_slice.h"

namespace accrue::accum {

/// Gradient sums that are divided among the ranks: each holds element_range_of(elements, i,
/// slice()) of the buffer's entry i. What lies elsewhere in its buffer is no sum of all ranks.
///
/// The calls are collectives: all ranks make the same ones, with as many numbers. They throw where
/// a rank is missing.
class SumShard {
 public:
  virtual ~SumShard() = default;
  virtual RankSlice slice() const = 0;
  /// Replaces each number by its sum, or its largest, over the ranks: the same on all of them.
  virtual void add_up(std::vector<double>& numbers) const = 0;
  virtual void take_largest(std::vector<std::int64_t>& numbers) const = 0;
};

}  // namespace accrue::accum
