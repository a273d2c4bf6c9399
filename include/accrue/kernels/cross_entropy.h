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
/// ignored. With `row_weights`, fp32 of the targets' shape, finite and not negative, the sum is
/// that of row_weight * cross-entropy, and the loss's weight that of the row weights of labels that
/// are not ignored; a row of weight 0 is one that is ignored.
///
/// Works by chunks of rows: logits are never whole. Where a gradient is wanted, the gradients of
/// `hidden` and `weight` (into its open slot) are made in the forward pass of the same chunk; the
/// upstream gradient of the returned sum must be 1 where a slot took part (else it is an Error).
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& targets, LowPrecisionCopy& copy,
                          const at::Tensor& row_weights = {});

/// The same for logits [..., K] that are at hand: a classifier's few classes. In fp32 (fp64 for
/// fp64); plain operators of ATen, on any device.
Loss cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                   const at::Tensor& row_weights = {});

/// The weight of either, from the targets alone. Throws a usage Error naming the row where a weight
/// is not finite or negative.
double label_weight(const at::Tensor& targets, const at::Tensor& row_weights = {});

}  // namespace accrue::kernels
