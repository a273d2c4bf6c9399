#pragma once

#include "kernels/operations.h"

namespace accrue::kernels {

/// The same operations by ATen's differentiable operators and autograd: none of accrue's
/// kernels, no slots, nothing packed, nothing recomputed. Verification compares the kernels with
/// it. Only dropout masks have the same definition (kernels/mask.h), word by word from
/// Random123.
///
/// bf16 rounds where the kernels do: operands, results and their gradients are bf16, products and
/// all intermediate values fp32, and the gradients of the masters stay fp32.
const Operations& plain_operations();

}  // namespace accrue::kernels
