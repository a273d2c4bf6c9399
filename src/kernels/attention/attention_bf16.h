#pragma once

#include <cstddef>

#include "kernels/attention/attention_simd.h"

namespace accrue::kernels::bf16_attention {

/// One head's attention with products of bf16 operands summed in fp32, as FlashAttention rounds
/// (Dao, arXiv:2307.08691): probabilities and score gradients become bf16 before they are
/// multiplied; scores, softmax and all sums are in fp32. Tasks are those of attention_simd.h, of
/// type bf16.

/// Whether this processor multiplies bf16 faster than fp32, and libtorch's product works and is not
/// switched off (at::Context::setUserEnabledMkldnn). Call it before each product.
bool available();

void head_forward(const rows::HeadForward& task);
/// Scratch of one head's pass, in elements of fp32.
std::size_t head_forward_scratch(std::size_t length, std::size_t width);

void head_backward(const rows::HeadBackward& task);
std::size_t head_backward_scratch(std::size_t length, std::size_t width);

}  // namespace accrue::kernels::bf16_attention
