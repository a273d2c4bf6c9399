#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/kernels/convolution.h"

namespace accrue::kernels::generic {

/// The convolutions of kernels/backend.h by ATen's operators: on devices, and for shapes and
/// processors that oneDNN does not support.
at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                    const ConvolutionSteps& steps);
at::Tensor image_gradient(const at::Tensor& grad, const at::Tensor& like, const at::Tensor& weight,
                          const ConvolutionSteps& steps);
at::Tensor kernel_gradient(const at::Tensor& grad, const at::Tensor& image, const at::Tensor& like,
                           const ConvolutionSteps& steps);

}  // namespace accrue::kernels::generic
