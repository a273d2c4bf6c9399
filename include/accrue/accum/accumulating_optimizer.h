#pragma once

#include <torch/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"

namespace accrue {

namespace detail {

/// `options`, if they state the size of a window. Throws a usage Error if they do not: a wrapped
/// optimizer would then never step.
AccumulatorOptions with_window_size(AccumulatorOptions options);
/// `options` with windows of this many micro-batches. Throws a usage Error if that is none.
AccumulatorOptions with_micro_batches(AccumulatorOptions options, std::int64_t micro_batches);

}  // namespace detail

/// A torch::optim::Optimizer that wraps another one and steps only when its window is full: for
/// code that calls `step()` after every backward and cannot be changed.
///
///   accrue::AccumulatingOptimizer optimizer(adamw, {.batch = accrue::Samples{256}});
///   optimizer.backward(Loss{sum, weight});   // instead of loss.backward()
/// does nothing until the window holds 256 samples
///
/// Its parameter groups have the options of the inner optimizer's groups and no parameters, so
/// zero_grad() on it is always harmless. A learning-rate scheduler, or other code that writes
/// options, may use this object or `inner()`. If one of the two was changed, a step() that acts,
/// finish() and save() copy the change to the other. If both were changed, this object's options
/// apply. Of options of a type that is not libtorch's, only the learning rate is copied.
class AccumulatingOptimizer : public torch::optim::Optimizer {
 public:
  /// `inner` must outlive this object. Accumulates all its parameters that require gradients.
  /// Throws a usage Error unless `options` have a `batch` or `micro_batches`.
  AccumulatingOptimizer(torch::optim::Optimizer& inner, AccumulatorOptions options);
  /// Takes the model's parameters with their names and observes its batch normalisations, as an
  /// Accumulator of the model does.
  template <detail::HasNamedParameters Model>
  AccumulatingOptimizer(const Model& model, torch::optim::Optimizer& inner,
                        AccumulatorOptions options)
      : torch::optim::Optimizer(std::vector<torch::optim::OptimizerParamGroup>{}, nullptr),
        inner_(inner),
        accumulator_(model, detail::with_window_size(std::move(options))) {
    take_groups();
  }

  void backward(Loss loss) { accumulator_.backward(std::move(loss)); }
  void backward(Loss loss, BatchSize size) { accumulator_.backward(std::move(loss), size); }
  /// A tensor is not a Loss: the compiler's message shows what to write instead.
  template <std::same_as<at::Tensor> Tensor, class... Rest>
  void backward(const Tensor& /*mean*/, const Rest&... /*rest*/) {
    detail::refuse_tensor_as_loss<AccumulatingOptimizer, Tensor>();
  }

  /// Steps `inner` if the window is full, and otherwise does nothing. Returns an undefined tensor.
  /// Throws a usage Error if `closure` is set, since it would run in the middle of a window, and if
  /// no backward() came before.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Steps with the pending micro-batches, at the end of the data.
  StepReport finish();
  /// Report of the last full window; `stepped` is false while the next one fills.
  const StepReport& last_report() const { return last_report_; }

  torch::optim::Optimizer& inner() { return inner_; }
  Accumulator& accumulator() { return accumulator_; }

  /// The state of the inner optimizer and of the accumulator; also in the middle of a window.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void take_groups();
  void settle_groups() const;

  torch::optim::Optimizer& inner_;
  Accumulator accumulator_;
  /// This object's groups: save() is const and has to copy changed options, too.
  std::vector<torch::optim::OptimizerParamGroup>& groups_ = param_groups_;
  /// The options of each group when both optimizers last agreed.
  mutable std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> settled_;
  StepReport last_report_;
};

/// An optimizer that steps once every `micro_batches` calls of backward() and step(), for loops
/// that count gradient accumulation steps: a batch is that many batches of the loader. Throws a
/// usage Error if `micro_batches` is below 1, or `options` also have a `batch`.
///
///   auto accumulating = accrue::accumulating(model, adamw, 8);
template <detail::HasNamedParameters Model>
AccumulatingOptimizer accumulating(const Model& model, torch::optim::Optimizer& optimizer,
                                   std::int64_t micro_batches, AccumulatorOptions options = {}) {
  return AccumulatingOptimizer(model, optimizer,
                               detail::with_micro_batches(std::move(options), micro_batches));
}

}  // namespace accrue
