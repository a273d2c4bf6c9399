#pragma once

#include "accrue/core/enum_words.h"

namespace accrue::kernels {

/// Who does what accrue has kernels for.
///
/// - native: accrue's own vectorised kernels for tensors in host memory; ATen for all others.
/// - generic: operators of ATen alone, which run on any device. The results are the same but for
///   rounding, and the masks of dropout are the same to the bit.
enum class Kernels { native, generic };
/// The words of run.kernels, the default ("auto": native if there is one) apart.
inline constexpr auto kernels_words =
    enum_words<Kernels>({{Kernels::native, "native"}, {Kernels::generic, "generic"}});

}  // namespace accrue::kernels
