#pragma once

#include "accrue/core/enum_words.h"

namespace accrue::kernels {

/// The implementation of the operations for which accrue has kernels.
///
/// - native: accrue's vectorised kernels for tensors in host memory; ATen for all others.
/// - generic: ATen's operators only, which run on any device. The results are equal up to
///   rounding, and the masks of dropout have the same bits.
enum class Kernels { native, generic };
/// The words of run.kernels without its default ("auto": native if available).
inline constexpr auto kernels_words =
    enum_words<Kernels>({{Kernels::native, "native"}, {Kernels::generic, "generic"}});

}  // namespace accrue::kernels
