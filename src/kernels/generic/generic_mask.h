#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/mask.h"

namespace accrue::kernels::generic {

/// The masks of samples (or heads) that all have `rows` and `columns`, by Philox4x32-10 as
/// arithmetic of int64 tensors: [masks, rows, columns] of `options`, each element its mask's scale
/// or 0. The bits are those defined in kernels/mask.h.
at::Tensor masks_of(const std::vector<DropoutMask>& masks, std::int64_t rows, std::int64_t columns,
                    const at::TensorOptions& options);

}  // namespace accrue::kernels::generic
