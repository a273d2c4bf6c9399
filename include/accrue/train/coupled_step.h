#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/core/loss.h"
#include "accrue/core/step_report.h"
#include "accrue/train/step.h"

namespace accrue {

namespace detail {

/// The functions of a coupled step: representations of samples [begin, end), each [end - begin,
/// ...], and a loss on those of the whole batch.
struct CoupledParts {
  std::function<std::vector<at::Tensor>(std::int64_t begin, std::int64_t end)> encode;
  std::function<Loss(const std::vector<at::Tensor>& representations)> loss;
};
StepReport coupled_step_in_slices(const SteppedModel& model, torch::optim::Optimizer& optimizer,
                                  std::int64_t samples, const CoupledParts& parts,
                                  const StepOptions& options);

inline std::vector<at::Tensor> as_list(at::Tensor tensor) { return {std::move(tensor)}; }
inline std::vector<at::Tensor> as_list(std::vector<at::Tensor> tensors) { return tensors; }
inline Loss as_loss(Loss loss) { return loss; }
inline Loss as_loss(at::Tensor mean) { return {.sum = std::move(mean), .weight = 1}; }

}  // namespace detail

/// One optimizer step with a loss that couples the samples of a batch (contrastive, in-batch
/// softmax), so it is not a sum over micro-batches. The gradient is exact, with the memory of one
/// micro-batch and all representations, for one more forward pass. Representation-gradient caching
/// (Gao, Zhang, Han, Callan, arXiv:2101.06983): encode every micro-batch without a graph; compute
/// the loss and its gradient for all representations; encode each micro-batch again and
/// differentiate it with its rows of that gradient.
///
///   accrue::coupled_step(model, optimizer, batch,
///       [](auto& model, const auto& slice) { return std::vector{model->text(slice[0]),
///                                                               model->image(slice[1])}; },
///       [&](const std::vector<at::Tensor>& r) { return info_nce(r[0], r[1], temperature); },
///       {.clip_norm = 1.0, .micro_batch = 32});
///
/// `encode(model, slice of batch)` returns a tensor [samples of the slice, ...], or a vector of
/// tensors, one per tower. `loss_fn` takes them for the whole batch (as `encode` returns them) and
/// returns the mean as a scalar, or Loss{sum, weight}. Parameters that `loss_fn` uses directly (a
/// temperature) are trained as well. Both passes use the same state of libtorch's random
/// generators, so ordinary dropout is as in one pass over the same micro-batches.
///
/// An encoder must process samples independently: it is a usage Error if it changes buffers (batch
/// normalisation in training) or gives other representations the second time. A loss or gradient
/// that is not finite leaves the parameters unchanged (`stepped` is false). With micro_batch >= the
/// batch, this is one plain pass.
///
/// With StepOptions::group each rank encodes its own samples, possibly none. Their representations
/// are all-gathered in rank order, so `loss_fn` receives those of all ranks on each rank, and the
/// gradient equals that of one process.
template <class Model, class Batch, class Encode, class LossFn>
StepReport coupled_step(Model& model, torch::optim::Optimizer& optimizer, const Batch& batch,
                        Encode&& encode, LossFn&& loss_fn, const StepOptions& options = {}) {
  if constexpr (detail::is_steppable<Model, Batch>()) {
    detail::CoupledParts parts;
    parts.encode = [&](std::int64_t begin, std::int64_t end) {
      return detail::as_list(encode(model, batch_slice(batch, begin, end)));
    };
    parts.loss = [&](const std::vector<at::Tensor>& representations) {
      if constexpr (std::is_invocable_v<LossFn&, const at::Tensor&> &&
                    !std::is_invocable_v<LossFn&, const std::vector<at::Tensor>&>) {
        return detail::as_loss(loss_fn(representations.at(0)));
      } else {
        return detail::as_loss(loss_fn(representations));
      }
    };
    return detail::coupled_step_in_slices(detail::stepped(model), optimizer, batch_size(batch),
                                          parts, options);
  }
  return {};
}

}  // namespace accrue
