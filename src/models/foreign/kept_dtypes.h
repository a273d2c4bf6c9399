#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "accrue/core/parameter.h"
#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// Brings what floats among `tensors` to `dtype`, in place. Whole numbers, truth values and complex
/// numbers stay what they are, as torch::nn::Module::to(dtype) leaves the first two: another dtype
/// would change what the model computes.
void convert_floating(const NamedParameters& tensors, at::ScalarType dtype);

/// Throws a usage Error, which `operation` begins, that names a parameter that is trained and not
/// real, or a tensor whose dtype no checkpoint holds.
void expect_trainable_dtypes(const NamedParameters& parameters, const NamedParameters& buffers,
                             const std::string& operation);

/// `tensors` as `targets` have them, where earlier versions wrote whole numbers as floating-point
/// ones.
StoredTensors with_whole_numbers(StoredTensors tensors, const NamedParameters& targets);

}  // namespace accrue::models
