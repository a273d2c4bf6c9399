#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace accrue::kernels::aten {

/// out (+)= a · b (+ bias, if defined) for any device, strides and dtype that ATen supports; 2 to 4
/// dimensions, checked by the caller.
void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
              bool accumulate);

/// "ATen (MKL)" or "ATen (BLAS)".
std::string description();

}  // namespace accrue::kernels::aten
