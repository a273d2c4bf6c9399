#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/mask.h"

namespace accrue::kernels {

/// The factors of `mask` for elements (first_row + r, c) of an [rows, columns] matrix: its scale or
/// 0, in fp32 or fp64.
at::Tensor plain_mask(const DropoutMask& mask, std::int64_t rows, std::int64_t columns,
                      at::ScalarType dtype);

}  // namespace accrue::kernels
