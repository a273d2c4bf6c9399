#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace accrue::kernels {

/// As autograd's functions take an input that may be absent: none if it is undefined.
inline std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace accrue::kernels
