#pragma once

#include <cstddef>

namespace accrue::accum {

/// Adam's divisor: sqrt(moment) * correction + eps.
struct RootOfMoment {
  float correction;
  float eps;
};

/// to[i] = values[i]^2 / (sqrt(moments[i]) * correction + eps). The same bits on each instruction
/// set.
void squares_over_roots(const float* values, const float* moments, std::size_t count,
                        const RootOfMoment& root, float* to);

}  // namespace accrue::accum
