#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace accrue::testing {

/// Adds 0 to a loss, and a value to each element of the gradient of its first argument: NaN, unless
/// one is given.
struct Poison : torch::autograd::Function<Poison> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            double value = std::numeric_limits<double>::quiet_NaN()) {
    context->save_for_backward({input});
    context->saved_data["value"] = value;
    return at::zeros({}, input.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    return {
        at::full_like(context->get_saved_variables()[0], context->saved_data["value"].toDouble()),
        at::Tensor()};
  }
};

}  // namespace accrue::testing
