#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/prepared_weight.h"

namespace accrue::kernels {

struct LogProbabilityOptions {
  std::int64_t ignored = ignored_label;  ///< rows with this label have log-probability 0
  double soft_cap = 0;                   ///< of the logits: CrossEntropyOptions
  std::int64_t chunk_rows = 0;           ///< rows of a chunk; 0: as in linear_cross_entropy
};

/// log p[target] of each row, p = softmax(hidden · weightᵀ), in fp64 in the shape of `targets`: for
/// a loss that is not a sum over rows, such as one of pairs of sequences.
///
/// Arguments as in linear_cross_entropy. Works in chunks of rows whose label is not ignored, so the
/// logits are never complete in memory. Backward, for any upstream gradient, computes the logits of
/// a chunk again, which costs one more product with the head than linear_cross_entropy
/// (docs/notes/preference.md); between the two only `hidden` is kept. The weight's gradient is
/// added to its slot, if it is open then.
at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                    const at::Tensor& targets, PreparedWeight& prepared,
                                    const LogProbabilityOptions& options = {});

}  // namespace accrue::kernels
