#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <type_traits>
#include <vector>

namespace accrue {

/// A differentiable function of tensors and of parameters that it holds. A second run must do the
/// same as the first; other state that it changes (running statistics) changes twice.
using CheckpointedFunction =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Runs fn(inputs) without keeping its graph: only the results of fn are kept, and backward runs fn
/// again (activation checkpointing: Chen et al., arXiv:1604.06174). Gradients are those of
/// fn(inputs), including dropout: the second run uses the state of libtorch's random generators,
/// autocast and accrue::accelerate() of the first run, and restores them afterwards; autocast
/// caches no casts in either. Parameters inside fn get their gradients as usual, in `.grad` or open
/// slots. Calls may be nested. Under NoGradGuard it only runs fn(inputs).
///
/// fn must not write to its inputs (usage Error). Backward throws a usage Error with create_graph,
/// and if gradients of selected tensors are requested (torch::autograd::grad), which would miss the
/// parameters; and a runtime Error if the second run's results differ from the first in number,
/// shape or dtype.
std::vector<at::Tensor> checkpoint(CheckpointedFunction fn, const std::vector<at::Tensor>& inputs);

/// Takes a function of one or several tensors, such as a torch::nn::Linear, that returns a tensor
/// or a vector of tensors.
template <class Fn, std::same_as<at::Tensor>... Inputs>
requires(sizeof...(Inputs) > 0) auto checkpoint(Fn fn, const Inputs&... inputs) {
  using Result = std::invoke_result_t<Fn&, const Inputs&...>;
  constexpr bool single = std::is_convertible_v<Result, at::Tensor>;
  static_assert(single || std::is_convertible_v<Result, std::vector<at::Tensor>>,
                "fn gives a tensor or a vector of them (wrap a torch::nn::Sequential in a lambda "
                "that calls its forward)");
  CheckpointedFunction of_vector = [fn]<std::size_t... i>(std::index_sequence<i...>) {
    return [fn](const std::vector<at::Tensor>& given) mutable -> std::vector<at::Tensor> {
      if constexpr (single)
        return {fn(given[i]...)};
      else
        return fn(given[i]...);
    };
  }
  (std::index_sequence_for<Inputs...>());
  const std::vector<at::Tensor> results = checkpoint(std::move(of_vector), {inputs...});
  if constexpr (single)
    return results.front();
  else
    return results;
}

}  // namespace accrue
