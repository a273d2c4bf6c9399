#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels::matvec {

/// Whether out = a · b (+ bias, if defined) multiplies one row by the transpose of a row-major
/// matrix, such as a layer's weight: the product in decoding, whose time is that of reading the
/// weight. 2 dimensions, checked by the caller.
bool fits(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

/// Computes the product, if fits() holds.
void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

}  // namespace accrue::kernels::matvec
