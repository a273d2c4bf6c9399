#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// Which part of a tensor belongs to a sample.
enum class SampleLayout : std::uint8_t {
  first,   ///< the first dimension is the samples'
  second,  ///< the second of at least three
  shares,  ///< equal shares of the first: heads, flattened positions
  unknown,
};
SampleLayout sample_layout(const at::Tensor& x, std::int64_t samples);
/// Whether the second dimension could be the samples' as well as the first.
bool is_layout_ambiguous(const at::Tensor& x, std::int64_t samples);
/// What tells layouts of passes of different sizes apart: how many rows of the first dimension a
/// sample has, 0 if the second is the samples'.
std::int64_t rows_of_sample(const at::Tensor& x, std::int64_t samples);

// Dropout with masks keyed by sample (kernels/dropout.h), of tensors of any shape whose layout is
// known, by the operations that the context asks for. `context` has the samples, `site` tells the
// dropouts of a pass from each other.

at::Tensor sample_dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                          std::int64_t site);
/// What dropout multiplies x with, of its shape and dtype.
at::Tensor sample_factors(const at::Tensor& x, double probability, const ForwardContext& context,
                          std::int64_t site);
/// What dropout of whole channels multiplies x [B, C, ...] with: [B, C, 1, ...].
at::Tensor feature_factors(const at::Tensor& x, double probability, const ForwardContext& context,
                           std::int64_t site);

}  // namespace accrue::kernels
