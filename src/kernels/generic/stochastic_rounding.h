#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/rounding_stream.h"

namespace accrue::kernels::generic {

/// `values`, fp32 and contiguous, in bf16: rounded up with the probability of the remainder, with
/// the bits of the vectorised passes on any device. values[0] is element `first` of its tensor, a
/// multiple of kRoundingBlock.
at::Tensor rounded_stochastically(const at::Tensor& values, const RoundingStream& stream,
                                  std::int64_t first = 0);

}  // namespace accrue::kernels::generic
