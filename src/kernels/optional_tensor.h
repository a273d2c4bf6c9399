#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace accrue::kernels {

/// The form in which autograd's functions take an optional input: none if it is undefined.
inline std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace accrue::kernels
