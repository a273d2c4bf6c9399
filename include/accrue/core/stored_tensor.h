#pragma once

#include <ATen/ops/empty.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accrue/core/parameter.h"

namespace accrue {

/// A named tensor whose values may not be in memory, with a function that reads them. The contents
/// of a file are first compared with a model by name, dtype and shape, and then read one tensor at
/// a time.
struct StoredTensor {
  std::string name;
  at::ScalarType dtype = at::ScalarType::Undefined;  ///< Undefined: there is no tensor
  std::vector<std::int64_t> shape;
  /// Copies the values into a tensor of that shape, as at::Tensor::copy_() does. Throws a runtime
  /// Error if they can no longer be read; the target may then be partly overwritten.
  std::function<void(const at::Tensor& target)> copy_to;

  /// Returns the values in a new tensor on the CPU.
  at::Tensor read() const {
    at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
    copy_to(tensor);
    return tensor;
  }
};

using StoredTensors = std::vector<StoredTensor>;

/// Wraps tensors in memory in the same interface. Shares their memory.
inline StoredTensors stored(const NamedParameters& tensors) {
  StoredTensors result;
  for (const auto& [name, tensor] : tensors)
    result.push_back({name, tensor.scalar_type(),
                      tensor.defined() ? tensor.sizes().vec() : std::vector<std::int64_t>{},
                      [values = tensor](const at::Tensor& target) { target.copy_(values); }});
  return result;
}

}  // namespace accrue
