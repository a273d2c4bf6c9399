#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace accrue::kernels {

/// Makes an operation's input again in its backward, to the bit, where it is cheaper to make than
/// to keep. Called without a graph, and only if the input is needed.
using Remake = std::function<at::Tensor()>;

/// Stands for a result that nobody reads (ForwardContext::result_unread): zeros of these sizes in
/// the memory of one element.
at::Tensor unread_result(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace accrue::kernels
