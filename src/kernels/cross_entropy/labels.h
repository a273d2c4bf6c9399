#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "accrue/kernels/cross_entropy.h"

namespace accrue::kernels {

/// Throws a usage Error naming the row if a label is neither `ignored` nor in [0, classes).
void expect_labels(std::string_view operation, const at::Tensor& targets, std::int64_t classes,
                   std::int64_t ignored);

/// The gradient of capped logits is computed from their exponentials relative to the largest logit,
/// which must not underflow: no logit is more than two caps below it.
inline constexpr double largest_soft_cap = 40;

/// Throws a usage Error if label smoothing is not in [0, 1), z-loss negative or not finite, or
/// the soft cap not in [0, largest_soft_cap].
void expect_terms(std::string_view operation, const CrossEntropyOptions& options);

/// Throws a usage Error unless `row_weights` is undefined or fp32 of the targets' shape, and names
/// the row if a weight is negative or not finite.
void expect_row_weights(std::string_view operation, const at::Tensor& targets,
                        const at::Tensor& row_weights);

}  // namespace accrue::kernels
