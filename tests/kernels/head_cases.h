#pragma once

#include <ATen/ATen.h>

#include <cstdint>

/// What the tests of the head's products (a loss, log-probabilities) go through.
namespace accrue::testing {

struct Case {
  at::ScalarType compute, master;
};

/// Few rows are one chunk; many are several, of unequal size. Few classes are one block.
struct Sizes {
  std::int64_t batch, length, channels, classes;
};
inline constexpr Sizes all_sizes[] = {{2, 9, 16, 7}, {1, 1, 5, 3}, {3, 50, 8, 24001}};
inline constexpr std::int64_t chunk_rows = 40;

}  // namespace accrue::testing
