#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/batch/micro_batch.h"
#include "accrue/core/loss.h"
#include "accrue/core/step_report.h"

namespace accrue {

struct StepOptions {
  double clip_norm = 0;          ///< 0: off
  std::int64_t micro_batch = 0;  ///< samples; 0: automatic, from the memory the first sample took
};

/// How `step` cuts a batch: its samples are the first dimension. Overload both for a batch type of
/// your own, in its namespace.
inline std::int64_t batch_size(const at::Tensor& batch) { return batch.size(0); }
inline at::Tensor batch_slice(const at::Tensor& batch, std::int64_t begin, std::int64_t end) {
  return batch.slice(0, begin, end);
}
/// Tensors side by side: inputs and targets, say.
inline std::int64_t batch_size(const std::vector<at::Tensor>& batch) { return batch.at(0).size(0); }
std::vector<at::Tensor> batch_slice(const std::vector<at::Tensor>& batch, std::int64_t begin,
                                    std::int64_t end);
namespace batch {
inline std::int64_t batch_size(const MicroBatch& b) { return b.inputs.size(0); }
/// By rows; of a packed batch with the samples that lie in them. Tokens are shared out evenly: a
/// MicroBatch does not say which of its inputs are padding.
MicroBatch batch_slice(const MicroBatch& batch, std::int64_t begin, std::int64_t end);
}  // namespace batch

namespace detail {

/// Runs samples [begin, end) as one micro-batch and returns their loss.
using RunSlice = std::function<Loss(std::int64_t begin, std::int64_t end)>;
StepReport step_in_slices(const std::vector<at::Tensor>& parameters,
                          torch::optim::Optimizer& optimizer, std::int64_t samples,
                          const RunSlice& run, const StepOptions& options);

template <class Model>
std::vector<at::Tensor> parameters_of(Model& model) {
  if constexpr (requires { model->parameters(); }) {
    return model->parameters();
  } else {
    return model.parameters();
  }
}

}  // namespace detail

/// One optimizer step on `batch`, in micro-batches that fit the memory: the batch is what the
/// optimisation wants. `model` is anything with parameters() (a torch::nn module or its holder);
/// `loss_fn(model, slice of batch)` returns Loss{sum, weight}. The gradient is that of the mean
/// loss of the whole batch, whatever the split. A slice whose loss or gradient is not finite is
/// left out (StepReport::quarantined): `loss_fn` then runs again on the others, and is to give the
/// same loss. Throws what `loss_fn` throws; no parameter has changed then.
template <class Model, class Batch, class LossFn>
StepReport step(Model& model, torch::optim::Optimizer& optimizer, const Batch& batch,
                LossFn&& loss_fn, const StepOptions& options = {}) {
  return detail::step_in_slices(
      detail::parameters_of(model), optimizer, batch_size(batch),
      [&](std::int64_t begin, std::int64_t end) {
        return loss_fn(model, batch_slice(batch, begin, end));
      },
      options);
}

}  // namespace accrue
