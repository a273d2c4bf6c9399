#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "kernels/element.h"

namespace accrue::kernels {

inline Element element_of(at::ScalarType dtype, std::string_view operation) {
  switch (dtype) {
    case at::kFloat:
      return Element::fp32;
    case at::kBFloat16:
      return Element::bf16;
    case at::kDouble:
      return Element::fp64;
    default:
      throw usage_error(operation, "fp32, bf16 or fp64", c10::toString(dtype),
                        "converting the tensor with .to(at::kFloat)");
  }
}

/// The memory of a contiguous tensor from its element `index` on.
inline const char* element(const at::Tensor& tensor, std::int64_t index) {
  return static_cast<const char*>(tensor.const_data_ptr()) + index * tensor.element_size();
}
inline char* element(at::Tensor& tensor, std::int64_t index) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + index * tensor.element_size();
}

/// Whether it is a dtype to which mixed precision rounds operands. accrue's kernels for the CPU
/// only support bf16; those compiled for a GPU, and ATen's operators, support both.
inline bool is_sixteen_bit(at::ScalarType dtype) {
  return dtype == at::kBFloat16 || dtype == at::kHalf;
}

/// fp64 for fp64, fp32 for all others: the dtype of sums and statistics.
inline at::ScalarType accumulation_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// The vectorised kernels read host memory.
inline void expect_on_cpu(const at::Tensor& tensor, std::string_view operation) {
  if (!tensor.is_cpu())
    throw usage_error(operation, "a tensor in host memory", "one on " + tensor.device().str(),
                      "moving it with .cpu()");
}

}  // namespace accrue::kernels
