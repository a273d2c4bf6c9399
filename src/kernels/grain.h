#pragma once

#include <algorithm>
#include <cstdint>

namespace accrue::kernels {

/// Elements below which a second thread costs more than it saves.
inline constexpr std::int64_t grain_elements = 16384;

/// The grain in items of `elements_per_item` elements each.
inline std::int64_t grain_of(std::int64_t elements_per_item) {
  return std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, elements_per_item));
}

}  // namespace accrue::kernels
