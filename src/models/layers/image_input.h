#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace accrue::models {

/// The most classes that an image classifier may distinguish.
inline constexpr std::int64_t most_classes = 1 << 24;

/// The images [B, C, H, W] of a micro-batch in `options`, the model's dtype and device. Throws a
/// usage Error if they are not floating-point images of the shape `expected`.
at::Tensor images_as(const at::TensorOptions& options, const at::Tensor& inputs,
                     const std::array<std::int64_t, 3>& expected);

}  // namespace accrue::models
