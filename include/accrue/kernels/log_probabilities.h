#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/kernels/cross_entropy.h"
#include "accrue/kernels/prepared_weight.h"

namespace accrue::kernels {

struct LogProbabilityOptions {
  std::int64_t ignored = ignored_label;  ///< rows of this label have log-probability 0
  double soft_cap = 0;                   ///< of the logits: CrossEntropyOptions
  std::int64_t chunk_rows = 0;           ///< rows of a chunk; 0: as linear_cross_entropy chooses
};

/// log p[target] of each row, p = softmax(hidden · weightᵀ): fp64 in the shape of `targets`, for a
/// loss that is no sum over the rows, such as one of pairs of sequences.
///
/// Arguments are those of linear_cross_entropy. Works by chunks of rows, and of those alone whose
/// label is not ignored: logits are never whole. Backward, for any upstream gradient, makes the
/// logits of a chunk again, which costs one product of the head's more than linear_cross_entropy
/// (docs/notes/preference.md); between the two only `hidden` is held. The weight's gradient goes
/// into its slot, if that is open then.
at::Tensor linear_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight,
                                    const at::Tensor& targets, PreparedWeight& prepared,
                                    const LogProbabilityOptions& options = {});

}  // namespace accrue::kernels
