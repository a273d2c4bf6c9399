#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accrue::kernels {

/// The rows of x [B * T, C] that belong to one sample, in order of position.
struct Part {
  std::int64_t begin, length;
};
using Parts = std::vector<Part>;

/// The gradient of a table [V, C] in fp32 or fp64 whose rows ids [M] were looked up: the sum of
/// grad [M, C] over the rows in the parts, by id. It is added to the table's open slot, and the
/// result is then undefined. Tensors are contiguous, ids int64 in [0, V).
at::Tensor token_gradient(const Parts& parts, const at::Tensor& ids, const at::Tensor& grad,
                          const at::Tensor& table);

}  // namespace accrue::kernels
