#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace accrue::kernels::generic {

/// Words of 32 bits in int64 tensors, which broadcast.
using PhiloxWords = std::array<at::Tensor, 4>;

/// Philox4x32-10 (Salmon et al., SC11) as arithmetic of tensors, on any device, with the bits of
/// core/rng.h.
PhiloxWords philox(PhiloxWords counter, at::Tensor key_0, at::Tensor key_1);

}  // namespace accrue::kernels::generic
