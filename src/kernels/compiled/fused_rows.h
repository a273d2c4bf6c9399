#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/rows/norm.h"

// Passes over rows that a GPU runs in one kernel instead of several of ATen's. Each has a function
// that returns whether it supports a case: its contract is then that of the pass of the same name
// in kernels/rows, and of generic::run_head_chunks for the cross-entropy.
namespace accrue::kernels::compiled {

bool normalises(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y);
Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters);

bool makes_norm_gradients(const at::Tensor& grad_out, const at::Tensor& input,
                          at::ScalarType y_dtype);
NormGradients norm_gradients(const at::Tensor& grad_out, const at::Tensor& grad_sum,
                             const at::Tensor& input, const at::Tensor& statistics,
                             const NormParameters& parameters, at::ScalarType y_dtype);

/// fp32 x + bf16 or fp16 y.
bool adds(const at::Tensor& x, const at::Tensor& y);
at::Tensor sum_of(const at::Tensor& x, const at::Tensor& y);

bool takes_cross_entropy(const at::Tensor& logits);
/// The losses [n] fp32 of logits [n, V] fp32, which are not kept, and each row's gradient times its
/// factor in `gradient` [n, V], fp32, bf16 or fp16, if it is defined. targets: [n] int64, negative
/// if a row does not count; factors: [n] fp32, undefined: 1.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& factors, const at::Tensor& gradient);

}  // namespace accrue::kernels::compiled
