#pragma once

#include "accrue/kernels/kernel_choice.h"
#include "support/skip.h"

namespace accrue::testing {

/// Whether the test program uses ATen's operators instead of accrue's kernels.
inline bool by_aten() { return kernels::chosen_kernels() == kernels::Kernels::generic; }

}  // namespace accrue::testing
