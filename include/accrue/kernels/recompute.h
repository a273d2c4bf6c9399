#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace accrue::kernels {

/// Recomputes an operation's input in its backward, with the same bits, if that is cheaper than
/// keeping it. Called without a graph, and only if the input is needed.
using Remake = std::function<at::Tensor()>;

/// A placeholder for a result whose values are not read (ForwardContext::result_unread): zeros of
/// these sizes in the memory of one element.
at::Tensor unread_result(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace accrue::kernels
