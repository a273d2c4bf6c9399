#pragma once

#include <cstdint>

namespace accrue::kernels {

/// A bfloat16 in memory, for the translation units that do not see torch.
struct Bf16 {
  std::uint16_t bits;
};

/// The element type behind the untyped pointers of the vectorised kernels.
enum class Element { fp32, bf16, fp64 };

}  // namespace accrue::kernels
