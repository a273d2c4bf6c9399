#pragma once

#include <c10/core/ScalarType.h>

#include "accrue/models/compute.h"

namespace accrue::models {

/// The dtype of parameters and of the residual stream.
inline at::ScalarType master_dtype(Compute compute) {
  return compute == Compute::fp64 ? at::kDouble : at::kFloat;
}

/// The dtype of the inputs of products.
inline at::ScalarType activation_dtype(Compute compute) {
  if (compute == Compute::fp16) return at::kHalf;
  return compute == Compute::bf16 ? at::kBFloat16 : master_dtype(compute);
}

}  // namespace accrue::models
