#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::rows {

/// One position's heads, each `2 * half` channels, densely packed. Cosines and sines [half] are
/// fp32 (fp64 for fp64).
struct Rotation {
  Element type;
  std::size_t heads, half;
  bool backwards;  ///< rotates in the other direction
  const void* from;
  void* to;
  const void* cosines;
  const void* sines;
};

/// Rotates each pair of channels i and i + half.
void rotate(const Rotation& task);

}  // namespace accrue::kernels::rows
