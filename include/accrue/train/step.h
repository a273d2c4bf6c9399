#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/core/loss.h"
#include "accrue/core/observer.h"
#include "accrue/core/step_report.h"
#include "accrue/core/user_model.h"
#include "accrue/distributed/group.h"
#include "accrue/train/batch_slice.h"

namespace accrue {

struct StepOptions {
  double clip_norm = 0;          ///< limit of the gradient norm; 0: off
  std::int64_t micro_batch = 0;  ///< samples, at most; 0: automatic, see Stepper
  /// Runs the model's operations in accrue's kernels during a step, with dropout masks keyed by the
  /// batch's rows, so that they are the same for any split (accrue::accelerate,
  /// accrue/kernels/accelerate.h). Their seed is drawn for each step from libtorch's default
  /// generator.
  bool accelerate = false;
  /// Like AccumulatorOptions::watch_parameters: set it to false if the model's forward() writes its
  /// weights.
  bool watch_parameters = true;
  /// Called for "micro_batch" (the size selected), "out_of_memory", "quarantined", "dropped", and
  /// the events that AccumulatorOptions::on_event receives once, each with its reason. If it is not
  /// set, events that come once are warnings by TORCH_WARN, and the others are silent.
  std::function<void(const Event&)> on_event{};
  /// Receives (and may change) the mean gradient, like AccumulatorOptions::on_mean_gradient.
  std::function<void(accum::MeanGradient&)> on_mean_gradient{};
  /// The ranks that take each step together, as distributed::join() makes them; null: this process
  /// is alone. Each rank passes its own samples of the batch, any number of them, possibly none;
  /// the gradient is that of the mean over all.
  std::shared_ptr<distributed::Group> group{};
  accum::SharingOptions sharing{};
};

namespace detail {

/// Runs samples [begin, end) as one micro-batch and returns their loss.
using RunSlice = std::function<Loss(std::int64_t begin, std::int64_t end)>;

/// A model in the form that a step needs.
struct SteppedModel {
  NamedParameters parameters;
  std::vector<at::Tensor> buffers;  ///< running statistics
  accum::FindBatchNorms batch_norms;
};

template <class Model>
SteppedModel stepped(Model& model) {
  return {named_parameters_of(model), buffers_of(model),
          accum::find_batch_norms_in_training(model)};
}

/// Stepper, without the types of model, batch and loss.
class SliceStepper {
 public:
  SliceStepper(SteppedModel model, torch::optim::Optimizer& optimizer, StepOptions options);
  ~SliceStepper();
  StepReport step(std::int64_t samples, const RunSlice& run);
  accum::WindowShare share(std::int64_t samples);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

template <class Model, class Batch, class LossFn>
struct LossOf {
  using Slice = decltype(batch_slice(std::declval<const Batch&>(), 0, 1));
  static constexpr bool callable = std::is_invocable_v<LossFn&, Model&, Slice>;
  template <class F>
  using Returned = std::invoke_result_t<F&, Model&, Slice>;
};

/// Whether a step is possible with these types; if not, the compiler's message names what is
/// missing.
template <class Model, class Batch>
constexpr bool is_steppable() {
  static_assert(HasParameters<Model>,
                "accrue: the model must have parameters(), as a torch::nn module, its holder or a "
                "TorchScript module does");
  static_assert(Sliceable<Batch>,
                "accrue: the batch must be a tensor, a std::vector of tensors or an "
                "accrue::batch::MicroBatch; for a type of your own declare batch_size(batch) and "
                "batch_slice(batch, begin, end) in its namespace");
  return HasParameters<Model> && Sliceable<Batch>;
}

template <class Model, class Batch, class LossFn>
constexpr bool gives_a_loss() {
  using Of = LossOf<Model, Batch, LossFn>;
  static_assert(Of::callable,
                "accrue: loss_fn must be callable as loss_fn(model, slice), with the model as it "
                "was passed and a slice of the batch");
  if constexpr (Of::callable) {
    constexpr bool returns_loss =
        std::is_same_v<std::decay_t<typename Of::template Returned<LossFn>>, Loss>;
    static_assert(
        returns_loss,
        "accrue: loss_fn must return accrue::Loss{sum, weight}, the sum of the loss's "
        "terms and how many there are; of a mean over n terms, accrue::Loss{mean * n, n}");
    return returns_loss;
  } else {
    return false;
  }
}

}  // namespace detail

/// Takes optimizer steps on batches that are too large to run at once: the batch has the size for
/// the optimisation, and runs in micro-batches that fit into memory. The gradient is that of the
/// mean loss of the whole batch, however it is split.
///
///   accrue::Stepper stepper(model, optimizer, {.clip_norm = 1.0});
///   for (auto& batch : loader) stepper.step(batch, loss_fn);
///
/// Without StepOptions::micro_batch the first two samples run forward once, without side effects,
/// to measure the memory per sample. The micro-batch is then the whole batch, or the largest power
/// of two of samples, that fits in half of the remaining memory budget (memory::set_budget), or in
/// a quarter of the free memory if there is no budget. It is determined again for a batch larger
/// than all before. If the memory cannot be measured (tensors of another device), the whole batch
/// is tried. Micro-batches are as even as possible: 9 samples by at most 4 are 3 + 3 + 3.
///
/// A micro-batch that runs out of memory (c10::OutOfMemoryError, std::bad_alloc) is undone and run
/// once more, then in halves; earlier sums are kept. StepReport::retries counts it. If one sample
/// does not fit, a refused Error is thrown. A micro-batch size set in the options is not halved if
/// batch normalisation uses its statistics.
///
/// A slice whose loss or gradient is not finite is quarantined (StepReport::quarantined): `loss_fn`
/// then runs again on the others, and must give the same losses.
///
/// If a batch takes more than one micro-batch and the model has batch normalisation in training
/// mode, which uses the statistics of each, StepReport::batchnorm is "micro", and
/// StepOptions::on_event is called once.
///
/// With StepOptions::group all ranks must make a Stepper with the same options and call step()
/// equally often; share() returns the part of a batch for this rank. An exception from step() ends
/// all ranks with its reason. One thread at a time may call; the model must keep device and dtype.
///
///   const accum::WindowShare mine = stepper.share(256);
///   stepper.step(samples_of(mine.begin, mine.end), loss_fn);
template <class Model>
class Stepper {
 public:
  /// `model` is anything with parameters() (a torch::nn module or its holder, a TorchScript
  /// module). It and `optimizer` must outlive this object. Parameters that are frozen at
  /// construction are left out of all steps.
  Stepper(Model& model, torch::optim::Optimizer& optimizer, StepOptions options = {})
      : model_(model), slices_(detail::stepped(model), optimizer, std::move(options)) {}

  /// Takes one step. `loss_fn(model, slice of batch)` returns Loss{sum, weight}. Its exceptions are
  /// rethrown; no parameter has changed then.
  ///
  /// StepReport::step is the number of steps of the optimizer including this one: from its state if
  /// that counts them (Adam, AdamW, RMSprop, Adagrad; it is saved and loaded with the optimizer),
  /// and otherwise the steps of this object. `samples` adds up over this object's steps.
  template <class Batch, class LossFn>
  StepReport step(const Batch& batch, LossFn&& loss_fn) {
    if constexpr (detail::is_steppable<Model, Batch>()) {
      if constexpr (detail::gives_a_loss<Model, Batch, LossFn>()) {
        return slices_.step(batch_size(batch), [&](std::int64_t begin, std::int64_t end) {
          return loss_fn(model_, batch_slice(batch, begin, end));
        });
      }
    }
    return {};  // the compiler has reported the missing function
  }

  /// This rank's part of the next step's batch, which has `samples` over all ranks: see
  /// Accumulator::share().
  accum::WindowShare share(std::int64_t samples) { return slices_.share(samples); }

 private:
  Model& model_;
  detail::SliceStepper slices_;
};

/// Takes one step of a new Stepper, which measures memory and allocates the sums each time.
/// StepReport::step is 1 with an optimizer that does not count its steps (SGD). A warning that a
/// Stepper gives once is given once per call site in the program.
template <class Model, class Batch, class LossFn>
StepReport step(Model& model, torch::optim::Optimizer& optimizer, const Batch& batch,
                LossFn&& loss_fn, StepOptions options = {}) {
  if constexpr (detail::is_steppable<Model, Batch>()) {
    if (!options.on_event)
      options.on_event = [](const Event& event) {
        // Each loss_fn has its own type, and so its own instance of this function.
        if (event.name == "batchnorm") {
          TORCH_WARN_ONCE(event.reason);
        } else if (event.name == "unused") {
          TORCH_WARN_ONCE(event.reason);
        } else if (event.name == "loss_weight") {
          TORCH_WARN_ONCE(event.reason);
        }
      };
    return Stepper<Model>(model, optimizer, std::move(options))
        .step(batch, std::forward<LossFn>(loss_fn));
  }
  return {};
}

}  // namespace accrue
