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
  double clip_norm = 0;          ///< 0: off
  std::int64_t micro_batch = 0;  ///< samples, at most; 0: automatic, see Stepper
  /// accrue's kernels do the model's operations while a step runs, and masks of dropout are keyed
  /// by the batch's rows, so that they are the same for any split (accrue::accelerate,
  /// accrue/kernels/accelerate.h). Their seed is drawn for each step from libtorch's default
  /// generator.
  bool accelerate = false;
  /// As AccumulatorOptions::watch_parameters: off where the model's forward() writes its own
  /// weights.
  bool watch_parameters = true;
  /// Told of "micro_batch" (the size that was chosen), "out_of_memory", "quarantined", "dropped",
  /// and of what AccumulatorOptions::on_event is told once, each with its reason. Without it, what
  /// comes once is a warning by TORCH_WARN, and the others are silent.
  std::function<void(const Event&)> on_event{};
  /// Sees (and may change) the mean gradient, as AccumulatorOptions::on_mean_gradient does.
  std::function<void(accum::MeanGradient&)> on_mean_gradient{};
  /// The ranks that take each step together, which distributed::join() makes; null: this process is
  /// alone. Each gives its own samples of the batch, any number of them, also none; the gradient is
  /// that of the mean over all.
  std::shared_ptr<distributed::Group> group{};
  accum::SharingOptions sharing{};
};

namespace detail {

/// Runs samples [begin, end) as one micro-batch and returns their loss.
using RunSlice = std::function<Loss(std::int64_t begin, std::int64_t end)>;

/// A model by what a step needs of it.
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

/// Whether a step can be made of these types; if it cannot, the compiler's message says what is
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

/// Optimizer steps on batches larger than what runs at once, one after another: the batch is what
/// the optimisation wants, and it runs in micro-batches that fit the memory. The gradient is that
/// of the mean loss of the whole batch, whatever the split.
///
///   accrue::Stepper stepper(model, optimizer, {.clip_norm = 1.0});
///   for (auto& batch : loader) stepper.step(batch, loss_fn);
///
/// Without StepOptions::micro_batch the first two samples run forward once, without a trace, to
/// measure what a sample takes. A micro-batch then is the whole batch, or the largest power of two
/// of samples, that fits in half of what the memory budget leaves (memory::set_budget), or in a
/// quarter of the free memory where there is none. It is found anew for a batch larger than all
/// before. Where nothing can be measured (tensors of another device) the whole batch is tried.
/// Micro-batches are as even as they can be: 9 samples by at most 4 are 3 + 3 + 3.
///
/// A micro-batch that runs out of memory (c10::OutOfMemoryError, std::bad_alloc) is undone and run
/// once more, then in halves; what was added up stays. StepReport::retries counts that. If one
/// sample does not fit, a refused Error says so. A size that was asked for is not halved where
/// batch normalisation takes its statistics from it.
///
/// A slice whose loss or gradient is not finite is quarantined (StepReport::quarantined): `loss_fn`
/// then runs again on the others, and is to give the same loss.
///
/// If a batch takes more than one micro-batch and the model has batch normalisation in training
/// mode, which takes the statistics of each, StepReport::batchnorm is "micro", and
/// StepOptions::on_event is told once.
///
/// With StepOptions::group all ranks make a Stepper alike and call step() as often; share() says
/// which part of a batch a rank is to give. What leaves step() as an exception ends all ranks with
/// its reason. One thread at a time may call; the model is to stay on its device and in its dtype.
///
///   const accum::WindowShare mine = stepper.share(256);
///   stepper.step(samples_of(mine.begin, mine.end), loss_fn);
template <class Model>
class Stepper {
 public:
  /// `model` is anything with parameters() (a torch::nn module or its holder, a TorchScript
  /// module). It and `optimizer` must outlive this object. Parameters that are frozen now are left
  /// out of all steps.
  Stepper(Model& model, torch::optim::Optimizer& optimizer, StepOptions options = {})
      : model_(model), slices_(detail::stepped(model), optimizer, std::move(options)) {}

  /// `loss_fn(model, slice of batch)` returns Loss{sum, weight}. Throws what it throws; no
  /// parameter has changed then.
  ///
  /// StepReport::step is the number of steps that the optimizer has taken, this one included: by
  /// its own state where that counts (Adam, AdamW, RMSprop, Adagrad; it is saved and loaded with
  /// the optimizer), else those of this object. `samples` adds up over this object's steps.
  template <class Batch, class LossFn>
  StepReport step(const Batch& batch, LossFn&& loss_fn) {
    if constexpr (detail::is_steppable<Model, Batch>()) {
      if constexpr (detail::gives_a_loss<Model, Batch, LossFn>()) {
        return slices_.step(batch_size(batch), [&](std::int64_t begin, std::int64_t end) {
          return loss_fn(model_, batch_slice(batch, begin, end));
        });
      }
    }
    return {};  // the compiler has said what is missing
  }

  /// This rank's part of the next step's batch, which has `samples` over all ranks: see
  /// Accumulator::share().
  accum::WindowShare share(std::int64_t samples) { return slices_.share(samples); }

 private:
  Model& model_;
  detail::SliceStepper slices_;
};

/// Takes one step of a Stepper made for it, which measures each time and allocates the sums anew.
/// StepReport::step is 1 with an optimizer that does not count its steps (SGD). What a Stepper
/// warns of once comes once for each place in the program that calls this.
template <class Model, class Batch, class LossFn>
StepReport step(Model& model, torch::optim::Optimizer& optimizer, const Batch& batch,
                LossFn&& loss_fn, StepOptions options = {}) {
  if constexpr (detail::is_steppable<Model, Batch>()) {
    if (!options.on_event)
      options.on_event = [](const Event& event) {
        // Each loss_fn has a type of its own, and so an instance of this.
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
