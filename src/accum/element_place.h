#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::accum {

/// The place of element `index`, counted as in a contiguous tensor: in elements after the first.
inline std::int64_t place_of(const at::Tensor& tensor, std::int64_t index) {
  std::int64_t place = 0;
  for (std::int64_t dimension = tensor.dim() - 1; dimension >= 0; --dimension) {
    place += index % tensor.size(dimension) * tensor.stride(dimension);
    index /= tensor.size(dimension);
  }
  return place;
}

}  // namespace accrue::accum
