#include "accrue/core/rank_slice.h"

#include <algorithm>

namespace accrue {

ElementRange element_range_of(std::int64_t elements, std::size_t index, const RankSlice& slice) {
  const std::int64_t grains = (elements + kRangeGrain - 1) / kRangeGrain;
  const std::int64_t place = (slice.rank + static_cast<std::int64_t>(index)) % slice.world;
  const auto cut = [&](std::int64_t at) {
    return std::min(at * grains / slice.world * kRangeGrain, elements);
  };
  return {cut(place), cut(place + 1) - cut(place)};
}

}  // namespace accrue
