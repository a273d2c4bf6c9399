#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/core/loss.h"
#include "accrue/kernels/low_precision.h"

namespace accrue::kernels {

inline constexpr std::int64_t ignored_label = -100;

/// Cross-entropy of hidden · weightᵀ against targets, as a sum and a count of the labels that are
/// not `ignored_label`; the head and the loss in one operation.
///
/// hidden [..., C] fp32, fp64 or bf16; weight [V, C] master; targets [...] int64 in [0, V) or
/// ignored. Works by chunks of rows: logits are never whole. Where a gradient is wanted, the
/// gradients of `hidden` and `weight` (into its open slot) are made in the forward pass of the same
/// chunk; the upstream gradient of the returned sum must then be 1 (another one is an Error).
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, LowPrecisionCopy& copy);

}  // namespace accrue::kernels
