#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/accum/batch_norms.h"
#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"
#include "accrue/core/user_model.h"
#include "accrue/train/step.h"
#include "accrue/verify/report.h"

namespace torch::nn {
class Module;
}

namespace accrue {

struct VerifyOptions {
  /// Micro-batch sizes to try; empty: 1, 2, 3, 7, half and all, if the batch allows and they give
  /// at most 64 micro-batches, each also reversed or shuffled in turn, and uneven sizes.
  std::vector<std::int64_t> micro_batches{};
  std::int64_t loop_micro_batch = 0;  ///< of verify_loop; 0: about a quarter, the last one uneven
  int noise_draws = 3;                ///< passes that measure rounding (accrue/verify/bound.h)
  std::uint64_t seed = 1;             ///< of libtorch's generator in each pass
};

/// Converts a batch to fp64, for the comparison that separates rounding from other causes. Overload
/// it beside batch_slice for other batch types; without an overload fp64 is left out.
at::Tensor batch_in_double(const at::Tensor& batch);
std::vector<at::Tensor> batch_in_double(const std::vector<at::Tensor>& batch);
namespace batch {
MicroBatch batch_in_double(const MicroBatch& batch);
}  // namespace batch

namespace detail {

/// A model with its loss on a batch, in the form that verification needs.
struct VerifiedModel {
  NamedParameters parameters;
  NamedParameters buffers;
  torch::nn::Module* module = nullptr;  ///< set if the model is one
  /// Set for other models that have modes: puts the model, or only its batch normalisations if
  /// `batch_norms_alone`, into evaluation mode, and returns a function that undoes it.
  std::function<std::function<void()>(bool batch_norms_alone)> evaluate;
  bool freezes_batch_norms = false;   ///< whether `evaluate` knows batch normalisations
  accum::FindBatchNorms batch_norms;  ///< those in training mode, if the model can list them
  std::int64_t samples = 0;
  RunSlice loss;
  RunSlice loss_in_double;
};

/// Throws a usage Error if the batch cannot be split.
void require_two_samples(const VerifiedModel& model);
proof::Report verify_model(const VerifiedModel& model, const VerifyOptions& options);
/// `loop` runs the user's loop with micro-batches of `micro` samples.
proof::Report verify_loop(const VerifiedModel& model,
                          const std::function<void(std::int64_t micro)>& loop,
                          const VerifyOptions& options);

template <class Model, class Batch, class LossFn>
VerifiedModel describe(Model& model, const Batch& batch, LossFn& loss_fn) {
  auto& network = pointee(model);
  using Network = std::remove_reference_t<decltype(network)>;
  VerifiedModel description;
  description.parameters = named(network.named_parameters());
  if constexpr (requires { network.named_buffers(); })
    description.buffers = named(network.named_buffers());
  if constexpr (std::is_convertible_v<Network*, torch::nn::Module*>) {
    description.module = &network;
  } else if constexpr (requires { network.train(network.is_training()); }) {
    description.evaluate = [&network](bool /*batch_norms_alone*/) -> std::function<void()> {
      const bool was_training = network.is_training();
      network.train(false);
      return [&network, was_training] { network.train(was_training); };
    };
  }
  description.batch_norms = accum::find_batch_norms_in_training(network);
  description.samples = batch_size(batch);
  description.loss = [&](std::int64_t begin, std::int64_t end) {
    return loss_fn(model, batch_slice(batch, begin, end));
  };
  if constexpr (requires { batch_in_double(batch_slice(batch, 0, 1)); })
    description.loss_in_double = [&](std::int64_t begin, std::int64_t end) {
      return loss_fn(model, batch_in_double(batch_slice(batch, begin, end)));
    };
  return description;
}

}  // namespace detail

/// Verifies that accumulating `batch` in micro-batches gives the gradient of the whole batch's mean
/// loss, for several splits and orders, and names the cause if it does not. `model` is anything
/// with named_parameters() (a torch::nn module or its holder, a TorchScript module);
/// `loss_fn(model, slice of batch)` returns Loss{sum, weight}. One pass of plain autograd is
/// compared with Accumulator's sums, per parameter. Parameters, buffers, `.grad`, modes and
/// libtorch's generator are restored afterwards. Throws a usage Error if the batch has fewer than 2
/// samples, its weight is 0, or a loss or a gradient is not finite.
template <class Model, class Batch, class LossFn>
proof::Report verify(Model& model, const Batch& batch, LossFn&& loss_fn,
                     const VerifyOptions& options = {}) {
  return detail::verify_model(detail::describe(model, batch, loss_fn), options);
}

/// Verifies the same for a user's loop that leaves the mean gradient of the batch in `.grad`:
/// `loop(model, slices)` with the micro-batches, or `loop(model, batch, micro)`. `.grad` is
/// undefined when it begins. `loss_fn` is verified first, since it defines the reference. The loop
/// may run twice; changes besides parameters, buffers and `.grad` (an optimizer's state) are not
/// undone. Throws a usage Error as verify() does, and if the batch is one micro-batch or no
/// backward pass of the loop reaches a parameter.
template <class Model, class Batch, class LossFn, class Loop>
proof::Report verify_loop(Model& model, const Batch& batch, LossFn&& loss_fn, Loop&& loop,
                          const VerifyOptions& options = {}) {
  const auto run = [&](std::int64_t micro) {
    if constexpr (std::invocable<Loop&, Model&, const Batch&, std::int64_t>) {
      loop(model, batch, micro);
    } else {
      std::vector<std::decay_t<decltype(batch_slice(batch, 0, 1))>> slices;
      const std::int64_t samples = batch_size(batch);
      for (std::int64_t begin = 0; begin < samples; begin += micro)
        slices.push_back(batch_slice(batch, begin, std::min(begin + micro, samples)));
      loop(model, slices);
    }
  };
  return detail::verify_loop(detail::describe(model, batch, loss_fn), run, options);
}

}  // namespace accrue
