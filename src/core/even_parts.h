#pragma once

#include <cstdint>

namespace accrue {

/// Splits `samples` into as few parts as `most` allows, as even as possible, and returns the size
/// of the first: 9 in parts of at most 4 are 3 + 3 + 3. With 4 + 4 + 1 the last one would be too
/// small for batch normalisation, and cost as much as a larger one. Both are at least 1.
constexpr std::int64_t even_part(std::int64_t samples, std::int64_t most) {
  const std::int64_t parts = (samples - 1) / most + 1;
  return (samples - 1) / parts + 1;
}

}  // namespace accrue
