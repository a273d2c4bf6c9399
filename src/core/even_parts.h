#pragma once

#include <cstdint>

namespace accrue {

/// Samples of the first of as few parts of `samples` as `most` allows, where these are as even as
/// they can be: 9 in parts of at most 4 are 3 + 3 + 3. With 4 + 4 + 1 the last one would be too few
/// for batch normalisation, and as costly as a larger one. Both are at least 1.
constexpr std::int64_t even_part(std::int64_t samples, std::int64_t most) {
  const std::int64_t parts = (samples - 1) / most + 1;
  return (samples - 1) / parts + 1;
}

}  // namespace accrue
