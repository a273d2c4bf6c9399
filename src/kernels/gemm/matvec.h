#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels::matvec {

/// Whether out = a · b (+ bias, where defined) is one row by the transpose of a matrix that lies
/// row by row, as a layer's weight does: the product that decoding consists of, whose time is that
/// of reading the weight. 2 dimensions, checked by the caller.
bool fits(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

/// The product, where it fits.
void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

}  // namespace accrue::kernels::matvec
