#pragma once

#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace accrue::kernels {

/// The backward pass of an operation of accrue's if its gradients are to be differentiated
/// again: those that libtorch makes of its own operation, with a graph. `inputs` may have undefined
/// tensors; the result has one gradient for each, undefined if none is wanted.
torch::autograd::variable_list gradients_with_graph(
    const torch::autograd::variable_list& inputs, const at::Tensor& upstream,
    const std::function<at::Tensor(const torch::autograd::variable_list&)>& operation);

}  // namespace accrue::kernels
