#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/blocks/blocks.h"

namespace accrue::kernels {

/// A frozen weight [N, K] in blocks is a contiguous tensor of bytes [N, K / elements, bytes of a
/// block], whose last size identifies the format: no two have the same. It has no gradient, and
/// products unpack it each time into memory that they free afterwards.

/// Whether a tensor of this dtype and these sizes is a weight in blocks.
bool is_in_blocks(at::ScalarType dtype, at::IntArrayRef sizes);
inline bool is_in_blocks(const at::Tensor& weight) {
  return is_in_blocks(weight.scalar_type(), weight.sizes());
}
/// The format of a weight in blocks. Throws a usage Error for another tensor.
BlockFormat format_of(const at::Tensor& blocks);

struct MatrixSize {
  std::int64_t rows, columns;
};
/// N and K of a matrix, in blocks or not.
MatrixSize matrix_size(at::ScalarType dtype, at::IntArrayRef sizes);
inline MatrixSize matrix_size(const at::Tensor& weight) {
  return matrix_size(weight.scalar_type(), weight.sizes());
}
/// The number of values of a tensor, those of its blocks if it is in blocks.
std::int64_t element_count(const at::Tensor& tensor);

/// The sizes of a matrix in blocks, whose columns must be a multiple of the format's elements.
std::vector<std::int64_t> sizes_in_blocks(BlockFormat format, const MatrixSize& size);

/// Whether products of `dtype` convert or unpack a weight each time they read it: one in blocks, or
/// in bf16 for products of another dtype.
bool is_unpacked_by_products(const at::Tensor& weight, at::ScalarType dtype);
/// `weight` [N, K] in `dtype`: itself if products of that dtype read it directly, otherwise a new
/// tensor. Uses several threads, without autograd.
at::Tensor unpacked(const at::Tensor& weight, at::ScalarType dtype);

/// Packs finite values [N, K], of any floating-point dtype, into `blocks` of q8_0 or q4_k. Converts
/// some rows at a time to fp32. Throws a usage Error if `blocks` has another format.
void pack_into(const at::Tensor& blocks, const at::Tensor& values);

}  // namespace accrue::kernels
