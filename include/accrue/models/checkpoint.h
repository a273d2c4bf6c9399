#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <type_traits>
#include <vector>

namespace accrue {

/// A differentiable function of tensors and of parameters it holds. Run twice it must do the same;
/// what it moves besides (running statistics) moves twice.
using CheckpointedFunction =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// fn(inputs) without its graph: of all that fn makes only the results are kept, and backward runs
/// it again (activation checkpointing: Chen et al., arXiv:1604.06174). Gradients are those of
/// fn(inputs) itself, dropout included: the second run finds libtorch's random generators, autocast
/// and accrue::accelerate() as the first one did, and leaves them as it found them; autocast keeps
/// no casts in either. Parameters inside fn get their gradients as always, by `.grad` or their open
/// slots; calls may be nested. Without a graph to make (NoGradGuard) it is fn(inputs).
///
/// fn must not write to its inputs (usage Error). Backward throws a usage Error with create_graph,
/// and where gradients of chosen tensors are asked for (torch::autograd::grad), which would miss
/// the parameters; a runtime Error if the second run gives other results than the first, by
/// their number, shape or dtype.
std::vector<at::Tensor> checkpoint(CheckpointedFunction fn, const std::vector<at::Tensor>& inputs);

/// Takes a function of one or several tensors, such as a torch::nn::Linear, that gives a tensor or
/// a vector of them.
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
