#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accrue::train {

/// The leaves that backward from `roots` would compute gradients of, as autograd's graph has them:
/// each once, in the order in which a search from the roots finds them. It can be called before
/// backward or after it.
std::vector<at::Tensor> trained_leaves(const std::vector<at::Tensor>& roots);

}  // namespace accrue::train
