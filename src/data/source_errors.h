#pragma once

#include <cstdint>
#include <string>

#include "accrue/core/error.h"

namespace accrue::data {

/// Throws a usage Error if `index` is not one of a source's `size` samples.
inline void require_index(std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw usage_error("fetch samples", "indices in [0, " + std::to_string(size) + ")",
                    std::to_string(index), "a sampler of this source's size");
}

}  // namespace accrue::data
