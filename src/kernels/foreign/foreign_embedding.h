#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels {

/// at::embedding of a table [V, C] in fp32 or fp64. Rows of the id `padding` have no gradient; -1:
/// no padding. Backward writes the table's gradient to its open slot.
at::Tensor foreign_embedding(const at::Tensor& table, const at::Tensor& ids, std::int64_t padding);

}  // namespace accrue::kernels
