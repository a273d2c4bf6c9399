#pragma once

#include <cmath>

namespace accrue {

/// Whether weights that were added up equal the expected total: counts are exact; other weights may
/// be summed in another order.
inline bool same_total(double seen, double expected) {
  constexpr double rounding = 1e-9;
  return std::abs(seen - expected) <= rounding * expected;
}

}  // namespace accrue
