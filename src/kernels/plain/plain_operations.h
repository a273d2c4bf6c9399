#pragma once

#include "kernels/operations.h"

namespace accrue::kernels {

/// The same operations by ATen's own differentiable operators and autograd: none of accrue's
/// kernels, no slots, nothing packed, nothing made again. It is what a proof compares the kernels
/// with. Only what a dropout mask is comes from the same definition (kernels/mask.h), word by word
/// from Random123.
///
/// bf16 rounds if the kernels do: operands, results and their gradients are bf16, products and
/// everything in between fp32, and the gradients of the masters stay fp32.
const Operations& plain_operations();

}  // namespace accrue::kernels
