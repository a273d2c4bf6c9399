#pragma once

#include <torch/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"

namespace accrue {

/// A torch::optim::Optimizer around another one that acts only when its window is full: for code
/// that calls `step()` after every backward and cannot be changed.
///
///   accrue::AccumulatingOptimizer optimizer(adamw, {.batch = accrue::Samples{256}});
///   optimizer.backward(Loss{sum, weight});   // instead of loss.backward()
///   optimizer.step();                        // does nothing until 256 samples are in
///
/// Its parameter groups have the options of the inner optimizer's and no parameters, so that
/// zero_grad() through it is harmless at any time. A learning-rate scheduler, or whoever writes to
/// options, may take this or `inner()`: if one of the two was changed, step() that acts,
/// finish() and save() change the other alike; if both were, this one's count. Of options of a
/// type that is not libtorch's, the learning rate alone is kept alike.
class AccumulatingOptimizer : public torch::optim::Optimizer {
 public:
  /// `inner` must outlive this object. Accumulates all its parameters that require gradients.
  AccumulatingOptimizer(torch::optim::Optimizer& inner, AccumulatorOptions options);
  /// Takes the model's parameters and their names, and sees its batch normalisations, as an
  /// Accumulator of it does.
  template <detail::HasNamedParameters Model>
  AccumulatingOptimizer(const Model& model, torch::optim::Optimizer& inner,
                        AccumulatorOptions options)
      : torch::optim::Optimizer(std::vector<torch::optim::OptimizerParamGroup>{}, nullptr),
        inner_(inner),
        accumulator_(model, std::move(options)) {
    take_groups();
  }

  void backward(Loss loss) { accumulator_.backward(std::move(loss)); }
  void backward(Loss loss, BatchSize size) { accumulator_.backward(std::move(loss), size); }
  /// A tensor is no Loss: the compiler says what to write instead.
  template <std::same_as<at::Tensor> Tensor, class... Rest>
  void backward(const Tensor& /*mean*/, const Rest&... /*rest*/) {
    detail::refuse_tensor_as_loss<AccumulatingOptimizer, Tensor>();
  }

  /// Steps `inner` if the window is full, and otherwise does nothing. Returns an undefined
  /// tensor. Throws a usage Error for a closure, which would run in the middle of a window, and
  /// if no backward() came before.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Steps with what is pending, at the end of the data.
  StepReport finish();
  /// Tells of the last full window; `stepped` is false while the next one fills.
  const StepReport& last_report() const { return last_report_; }

  torch::optim::Optimizer& inner() { return inner_; }
  Accumulator& accumulator() { return accumulator_; }

  /// The inner optimizer's state and the accumulator's, in the middle of a window too.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void take_groups();
  void settle_groups() const;

  torch::optim::Optimizer& inner_;
  Accumulator accumulator_;
  /// This one's, for save(), which is const and settles them, too.
  std::vector<torch::optim::OptimizerParamGroup>& groups_ = param_groups_;
  /// Each group's options when both optimizers had the same.
  mutable std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> settled_;
  StepReport last_report_;
};

/// An optimizer that steps once for `micro_batches` backward() and step(), for loops that think in
/// accumulation steps: what they count as one batch is so many of the loader's.
///
///   auto accumulating = accrue::accumulating(model, adamw, 8);
template <detail::HasNamedParameters Model>
AccumulatingOptimizer accumulating(const Model& model, torch::optim::Optimizer& optimizer,
                                   std::int64_t micro_batches, AccumulatorOptions options = {}) {
  options.micro_batches = micro_batches;
  return AccumulatingOptimizer(model, optimizer, std::move(options));
}

}  // namespace accrue
