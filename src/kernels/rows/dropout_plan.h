#pragma once

#include <cstdint>
#include <vector>

#include "kernels/mask.h"

namespace accrue::kernels {

/// One sample's rows of x as a matrix [rows, C], from row `begin` on.
struct MaskedRows {
  std::int64_t begin, rows;
  DropoutMask mask;
};

}  // namespace accrue::kernels
