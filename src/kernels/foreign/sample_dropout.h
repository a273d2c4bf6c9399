#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// The part of a tensor that belongs to a sample.
enum class SampleLayout : std::uint8_t {
  first,   ///< the first dimension is the samples'
  second,  ///< the second of at least three
  shares,  ///< equal shares of the first: heads, flattened positions
  unknown,
};
SampleLayout sample_layout(const at::Tensor& x, std::int64_t samples);
/// Whether the second dimension could be the samples' as well as the first.
bool is_layout_ambiguous(const at::Tensor& x, std::int64_t samples);
/// Distinguishes layouts in passes of different sizes: the number of rows of the first dimension
/// per sample, 0 if the second dimension is the samples'.
std::int64_t rows_of_sample(const at::Tensor& x, std::int64_t samples);

// Dropout with masks keyed by sample (kernels/dropout.h), of tensors of any shape with a known
// layout, by the operations of the context. `context` has the samples, `site` identifies the
// dropout within a pass.

at::Tensor sample_dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                          std::int64_t site);
/// The factors of x in dropout, in its shape and dtype.
at::Tensor sample_factors(const at::Tensor& x, double probability, const ForwardContext& context,
                          std::int64_t site);
/// The factors of x [B, C, ...] in dropout of whole channels: [B, C, 1, ...].
at::Tensor feature_factors(const at::Tensor& x, double probability, const ForwardContext& context,
                           std::int64_t site);

}  // namespace accrue::kernels
