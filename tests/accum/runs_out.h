#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

namespace accrue::testing {

/// Returns its input; memory runs out in its backward. What is created first is differentiated
/// last: for a parameter, gradients of others have arrived by then.
struct RunsOut : torch::autograd::Function<RunsOut> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory for this many samples");
    return {};
  }
};

}  // namespace accrue::testing
