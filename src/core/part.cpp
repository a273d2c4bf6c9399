#include "accrue/core/part.h"

#include <algorithm>

namespace accrue {

Stretch stretch_of(std::int64_t elements, std::size_t index, const Part& part) {
  const std::int64_t grains = (elements + kStretchGrain - 1) / kStretchGrain;
  const std::int64_t place = (part.rank + static_cast<std::int64_t>(index)) % part.world;
  const auto cut = [&](std::int64_t at) {
    return std::min(at * grains / part.world * kStretchGrain, elements);
  };
  return {cut(place), cut(place + 1) - cut(place)};
}

}  // namespace accrue
