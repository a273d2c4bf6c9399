#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "kernels/aten_element.h"
#include "kernels/compiled/device_program.h"

// The common parts of the launches of compiled kernels.
namespace accrue::kernels::compiled {

inline constexpr std::int64_t vector = 4;  ///< elements of one access, as in row_kernels.inc

/// Whether accesses of VECTOR elements may begin at each VECTOR-th element.
inline bool is_aligned(const at::Tensor& tensor) {
  constexpr std::uintptr_t bytes = 16;
  return !tensor.defined() ||
         (tensor.is_contiguous() &&
          reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % bytes == 0);
}

inline bool is_narrow_or_single(at::ScalarType dtype) {
  return dtype == at::kFloat || is_sixteen_bit(dtype);
}

/// The word of row_kernels.inc for one of is_narrow_or_single().
inline const char* name_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "fp16";
    default:
      TORCH_INTERNAL_ASSERT(false, "no kernel for rows takes ", dtype);
  }
}
inline const char* name_of(bool value) { return value ? "true" : "false"; }

inline const void* address(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

inline std::int64_t blocks_for(std::int64_t size, std::int64_t per_block) {
  return (size + per_block - 1) / per_block;
}

}  // namespace accrue::kernels::compiled
