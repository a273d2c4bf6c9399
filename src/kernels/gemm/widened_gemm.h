#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels::widened {

/// The number of rows, columns and terms that are converted at once (docs/notes/gemm.md).
inline constexpr std::int64_t block = 512;
/// A block of each operand and one of their product, in fp32.
inline constexpr std::int64_t scratch_bytes = 3 * block * block * std::int64_t{sizeof(float)};

/// A product of fp32 matrices: out (+)= a · b (+ bias, if defined).
using Multiply = void(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                      const at::Tensor& bias, bool accumulate);

/// out (+)= a · b (+ bias, if defined) of bf16 operands on the CPU, composed of `fp32_product`s of
/// their blocks: the terms of a product of bf16, summed in fp32 and rounded once into a bf16 `out`.
/// 2 to 4 dimensions, checked by the caller. Uses at most scratch_bytes.
void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
              bool accumulate, Multiply& fp32_product);

}  // namespace accrue::kernels::widened
