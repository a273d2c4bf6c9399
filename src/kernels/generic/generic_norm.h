#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/rows/norm.h"

namespace accrue::kernels::generic {

/// normalise() and norm_gradients() of kernels/rows/norm.h by ATen's operators. The statistics are
/// [2, rows] here: means and reciprocal deviations, or only reciprocal root mean squares, in the
/// second row.
Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters);
NormGradients norm_gradients(const at::Tensor& grad_out, const at::Tensor& grad_sum,
                             const at::Tensor& input, const at::Tensor& statistics,
                             const NormParameters& parameters, at::ScalarType y_dtype);

}  // namespace accrue::kernels::generic
