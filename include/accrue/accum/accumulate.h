#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>

#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"
#include "accrue/core/user_model.h"

namespace accrue {

/// What `accumulate` returns.
struct Accumulated {
  /// The mean loss's gradients under the parameters' names, in registration order: a tied parameter
  /// stands once, a frozen one not at all, an unused one with zeros. They are fp64 for fp64
  /// parameters and fp32 for others, and zero where `weight` is 0.
  NamedParameters gradients;
  double weight = 0;
  double loss_sum = 0;
};

/// Runs the next micro-batch's forward pass and returns its loss; nothing when there is no more.
using NextLoss = std::function<std::optional<Loss>()>;

/// The gradient of the mean loss over all micro-batches, as a function: parameters, their `.grad`
/// and their accumulators are as before, also after an exception. Throws a usage Error if a
/// parameter belongs to an open window or a loss is not finite.
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
