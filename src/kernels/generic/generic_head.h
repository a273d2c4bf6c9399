#pragma once

#include "kernels/backend.h"
#include "kernels/cross_entropy/head_chunks.h"

namespace accrue::kernels::generic {

/// run_head_chunks() of kernels/cross_entropy by ATen's operators. A chunk's logits and their
/// gradient are complete; on a device nothing waits for the sum, so gradients that are not finite
/// reach their destination, and the sum shows it. The back end may have a pass of its own for a
/// chunk's losses and their gradient (Backend::fused_cross_entropy).
HeadResult run_head_chunks(const Backend& backend, const HeadInput& input, WantedGradients wanted);

}  // namespace accrue::kernels::generic
