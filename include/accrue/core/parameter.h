#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace accrue {

/// A parameter and its name in checkpoints, errors and reports ("h.0.attn.c_attn.weight").
struct NamedParameter {
  std::string name;
  at::Tensor tensor;  ///< a leaf; frozen if it does not require a gradient
};

using NamedParameters = std::vector<NamedParameter>;

}  // namespace accrue
