#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace accrue::testing {

/// Adds 0 to a loss and NaN to the gradient of its argument.
struct Poison : torch::autograd::Function<Poison> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    context->save_for_backward({input});
    return at::zeros({}, input.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    return {
        at::full_like(context->get_saved_variables()[0], std::numeric_limits<double>::quiet_NaN())};
  }
};

}  // namespace accrue::testing
