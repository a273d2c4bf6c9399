#pragma once

#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace accrue::kernels {

/// The backward pass of an accrue operation whose gradients will be differentiated again: libtorch
/// computes them by its own operation, with a graph. `inputs` may have undefined tensors; the
/// result has one gradient for each, undefined if it is not needed.
torch::autograd::variable_list gradients_with_graph(
    const torch::autograd::variable_list& inputs, const at::Tensor& upstream,
    const std::function<at::Tensor(const torch::autograd::variable_list&)>& operation);

}  // namespace accrue::kernels
