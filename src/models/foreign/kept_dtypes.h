#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "accrue/core/parameter.h"
#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// Converts the floating-point `tensors` to `dtype`, in place. Integers, booleans and complex
/// numbers stay as they are, as torch::nn::Module::to(dtype) leaves the first two: another dtype
/// would change what the model computes.
void convert_floating(const NamedParameters& tensors, at::ScalarType dtype);

/// Throws a usage Error of `operation` that names a parameter that is trained and not real, or a
/// tensor whose dtype no checkpoint holds.
void expect_trainable_dtypes(const NamedParameters& parameters, const NamedParameters& buffers,
                             const std::string& operation);

/// `tensors` in the dtypes of `targets`, if earlier versions wrote integers as floating-point
/// numbers.
StoredTensors with_whole_numbers(StoredTensors tensors, const NamedParameters& targets);

}  // namespace accrue::models
