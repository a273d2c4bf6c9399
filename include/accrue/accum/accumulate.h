#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>

#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"
#include "accrue/core/user_model.h"

namespace accrue {

/// The result of `accumulate`.
struct Accumulated {
  /// The gradients of the mean loss under the parameters' names, in registration order. A tied
  /// parameter appears once, a frozen one not at all, an unused one with zeros. They are fp64 for
  /// fp64 parameters and fp32 for all others, and zero if `weight` is 0.
  NamedParameters gradients;
  double weight = 0;
  double loss_sum = 0;
};

/// Runs the forward pass of the next micro-batch and returns its loss, or nothing at the end.
using NextLoss = std::function<std::optional<Loss>()>;

/// Computes the gradient of the mean loss over all micro-batches, as a function: parameters, their
/// `.grad` and their accumulators are unchanged afterwards, also after an exception. Throws a usage
/// Error if a parameter belongs to an open window or a loss is not finite.
Accumulated accumulate(const NamedParameters& parameters, const NextLoss& next_loss);

/// Takes a model with named_parameters() (a torch::nn module or its holder), and calls
/// `loss_fn(model, micro)` for each micro-batch of `batch`.
template <typename Model, std::ranges::input_range Batch, typename LossFn>
Accumulated accumulate(Model& model, Batch&& batch, LossFn&& loss_fn) {
  auto micro = std::ranges::begin(batch);
  return accumulate(detail::named_parameters_of(model), [&]() -> std::optional<Loss> {
    if (micro == std::ranges::end(batch)) return std::nullopt;
    Loss loss = loss_fn(model, *micro);
    ++micro;
    return loss;
  });
}

}  // namespace accrue
