#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/accumulator_options.h"
#include "accrue/accum/batch_norms.h"
#include "accrue/accum/loss_totals.h"
#include "accrue/accum/shared_sums.h"
#include "accrue/accum/window.h"
#include "accrue/adapt/noise_scale.h"
#include "accrue/core/clock.h"
#include "accrue/core/ledger.h"
#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"
#include "accrue/core/step_report.h"
#include "accrue/core/user_model.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue {

namespace accum {
class SingleThreadGuard;
}

struct LoopPlan;
struct LoopPlanOptions;

namespace detail {

/// The compile-time error of a `Receiver` of losses for a tensor, which is usually a mean, no sum.
template <class Receiver, class Tensor>
constexpr void refuse_tensor_as_loss() {
  static_assert(!std::same_as<Tensor, at::Tensor>,
                "accrue: backward takes accrue::Loss{sum, weight} and not a tensor: the sum of the "
                "loss's terms and how many there are; of a mean over n terms, "
                "accrue::Loss{mean * n, n}");
}

}  // namespace detail

/// The state of an accumulator at any point, as plain data (accumulator_archive.h writes files).
struct AccumulatorState {
  accum::WindowState window;
  std::int64_t steps = 0;              ///< optimizer steps taken
  std::int64_t windows = 0;            ///< windows opened
  double window_units = 0;             ///< counted in the open window, in the batch's unit
  double total_units = 0;              ///< counted in all closed windows
  adapt::NoiseAverage::State noise{};  ///< of all closed windows
  /// Of the first micro-batch of the open window; the noise is measured with it.
  std::optional<adapt::NoiseSample> noise_part{};
  /// For each ledger entry of the open window, in order, the first entry of its micro-batch. It
  /// differs from the entry itself only if the micro-batch was split.
  std::vector<std::int64_t> first_entries{};
  std::optional<LossTotals> losses{};  ///< the totals that expect() was given for the open window
  std::vector<std::vector<double>>
      loss_weights{};  ///< of the micro-batches of the open window, in order
};

class AccumulatorScope;

/// An optimizer whose step takes a MeanGradient (sums and their scale): accrue::optim::Optimizer.
template <class Optimizer>
concept StepsByMeanGradient = requires(Optimizer& optimizer, accum::MeanGradient&& gradient,
                                       double lr) {
  optimizer.step(std::move(gradient), lr);
};

/// Gradient accumulation for an existing loop: backward() once per micro-batch, as many as fit in
/// memory, and step() once per batch.
///
///   accrue::Accumulator acc(model, {.batch = accrue::Tokens{524'288}});
///   for (auto& micro : loader) {
///     acc.backward(loss_fn(model, micro));
///     if (acc.full()) acc.step(optimizer);
///   }
///   acc.finish(optimizer);
///
/// A window is open from its first backward() to step(). Meanwhile zero_grad(), clipping, a plain
/// backward(), step() and model->to() by other code are refused, by the next backward() or step()
/// (see accum::Window). Writes that leave no other trace, such as those of libtorch's SGD and
/// writes through data(), are detected by comparing a few elements of each parameter and sum; a
/// write to other elements only is not detected. On a GPU only step() reports them. Parameters
/// frozen at construction are left out, and tied ones count once. A parameter that the window did
/// not use keeps an undefined `.grad`, so torch::optim skips it. After step(), `.grad` holds the
/// mean gradient until the next window opens (for fp32 and fp64 parameters; for narrower ones only
/// during the step), unless the step does not read `.grad`.
///
/// Any thread may call, one at a time: a call during a call of another thread is a usage Error.
/// Hooks that run in a backward() may also call full(), pending() and current_window() on
/// autograd's threads. The model must not change: after model->to() with another device or dtype,
/// the next window is a usage Error.
///
/// If made from a model, it detects batch normalisations that use the statistics of each
/// micro-batch when a window has several: StepReport::batchnorm reports it, and
/// AccumulatorOptions::on_event is called once.
///
/// With AccumulatorOptions::group each rank has one accumulator, made with the same options, and
/// passes its own micro-batches to it. Their number may differ between ranks; a rank without any
/// calls step() without a backward(). Sums, weights and losses are all-reduced once, in step() or
/// during the backward that fills this rank's share; then all ranks take the same step, or none.
/// full() refers to this rank's share: an equal part of `batch`, or the result of share(). An Error
/// that leaves a call ends all ranks with its reason, as do parameters that differ between ranks.
class Accumulator {
 public:
  /// Takes a model with named_parameters(): a torch::nn module or its holder, or a TorchScript
  /// module. If not a holder, it must outlive this object. Throws a usage Error if no parameter is
  /// trainable, `options` contradict each other, or a parameter belongs to an open window.
  template <detail::HasNamedParameters Model>
  explicit Accumulator(const Model& model, AccumulatorOptions options = {})
      : Accumulator(detail::named_parameters_of(model), std::move(options),
                    accum::find_batch_norms_in_training(model)) {}
  /// Uses these names in errors.
  explicit Accumulator(const NamedParameters& parameters, AccumulatorOptions options = {},
                       accum::FindBatchNorms batch_norms = {});
  /// Takes the result of model->named_parameters().
  template <detail::ListOfNamed List>
  explicit Accumulator(const List& parameters, AccumulatorOptions options = {})
      : Accumulator(detail::named(parameters), std::move(options)) {}
  /// Names the parameters "0", "1", ... in order.
  explicit Accumulator(const std::vector<at::Tensor>& parameters, AccumulatorOptions options = {});
  ~Accumulator();
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  /// Processes one micro-batch: differentiates `loss.sum` with respect to these parameters only
  /// (two models with an accumulator each never touch each other's gradients) and adds the gradient
  /// to the window. A loss that is not finite quarantines the micro-batch, and the window
  /// continues. Exceptions of autograd reach the caller after the micro-batch was undone. Its graph
  /// is freed before others run again, unless the caller keeps a reference to `loss.sum`.
  void backward(Loss loss);
  /// `size` states how much of the batch this micro-batch is, if the loss's weight is not in the
  /// unit of the batch. If the batch is stated in samples, the weight does not count them: it is a
  /// usage Error to pass neither `size` nor `sample_ids`.
  ///
  /// If `sample_ids` are given and a replay is set, a micro-batch that runs out of memory here
  /// (c10::OutOfMemoryError, std::bad_alloc) is undone, and the replay runs its samples again: once
  /// as a whole, then in halves, in the order of their ids, each with a ledger entry. The window
  /// continues as if it had been split this way from the start, and StepReport::retries counts it.
  /// The replay must return the sum over exactly the samples in MicroRef::sample_ids; parts whose
  /// weights do not add up to the whole weight are a usage Error. If a single sample does not fit,
  /// a refused Error suggests what to try. Both errors lose the window. Micro-batches that batch
  /// normalisation takes statistics from are not halved.
  void backward(Loss loss, BatchSize size, std::vector<std::int64_t> sample_ids = {});
  /// A tensor is not a Loss: the compiler's message shows what to write instead.
  template <std::same_as<at::Tensor> Tensor, class... Rest>
  void backward(const Tensor& /*mean*/, const Rest&... /*rest*/) {
    detail::refuse_tensor_as_loss<Accumulator, Tensor>();
  }

  /// Finds the largest micro-batch that fits: accrue::plan() with this accumulator's batch and its
  /// sums for the trials, so `.grad` no longer holds the last window's mean gradient. Defined in
  /// accrue/train/loop_plan.h, since the trials need components above this one.
  template <class Model, class Batch, class LossFn>
  LoopPlan plan(Model& model, const Batch& batch, LossFn&& loss_fn);
  template <class Model, class Batch, class LossFn>
  LoopPlan plan(Model& model, const Batch& batch, LossFn&& loss_fn, const LoopPlanOptions& options);

  /// Returns this rank's samples of the next window, of a batch of `size` over all ranks (by
  /// default AccumulatorOptions::batch), by the speeds measured between share() and step() of
  /// earlier windows. Call it before reading the data of the share, on all ranks, for every window
  /// or for none. Throws a usage Error if a window is open.
  ///
  ///   const accum::WindowShare mine = acc.share(Samples{256});
  ///   for (begin = mine.begin; begin < mine.end; ...) acc.backward(loss_fn(...), Samples{8});
  ///   acc.step(optimizer);
  accum::WindowShare share(BatchSize size = {});
  /// Announces that the next backward() is this rank's last of the window, if neither the batch nor
  /// a number of micro-batches does. Gradients that are ready are then sent during it.
  void next_is_last();

  /// Opens a window of several losses with separate denominators (see LossTotals). `totals` are
  /// their total weights over the window, counted from the labels before the first backward. With
  /// several ranks each passes its own totals, even if it has no micro-batch. Throws a usage Error
  /// if a window is open.
  ///
  ///   acc.expect({{tokens_of_window, boxes_of_window}, {1.0, 0.25}});
  ///   for (auto& micro : window) acc.backward(std::vector{token_loss, box_loss}, Samples{8});
  ///   acc.step(optimizer);
  ///
  /// step() throws a usage Error if the weights seen do not add up to the totals. If a micro-batch
  /// is quarantined, its weights are subtracted from the totals and `replay_losses` runs the other
  /// micro-batches again.
  void expect(LossTotals totals);
  /// Processes one micro-batch of a window opened by expect(), with each loss once; several losses
  /// without expect() are a usage Error. Without `size`, it counts by the first nonzero weight. The
  /// graph of losses that are moved into the call is freed before micro-batches run again.
  void backward(std::vector<Loss> losses, BatchSize size = {},
                std::vector<std::int64_t> sample_ids = {});

  /// Differentiates `outputs` with the upstream `gradients` into the open window, as a micro-batch
  /// without loss and weight: the earlier part of a graph whose loss a backward() of this window
  /// differentiated down to `outputs`. Throws a usage Error if no window is open, or if a replay is
  /// set, which could not repeat it.
  void backward_from(const std::vector<at::Tensor>& outputs,
                     const std::vector<at::Tensor>& gradients);

  /// Sets the batch of later windows, in the unit of the current one. Throws a usage Error if a
  /// window is open, or if no batch is stated in that unit.
  void set_batch(BatchSize batch);

  /// Whether the window holds its batch, or was lost so that nothing more can be added.
  bool full() const;
  /// Whether a window is open.
  bool pending() const;
  const accum::Window& current_window() const;

  /// Closes the window: mean gradient, clipping, one optimizer step. The optimizer must not hold
  /// trained parameters that are not accumulated here. Throws a usage Error if no window is open
  /// and no other rank can have one.
  StepReport step(torch::optim::Optimizer& optimizer);
  /// Steps with an accrue::optim::Optimizer, or a class like it, and learning rate `lr`. The
  /// optimizer divides the sums while reading them: no separate pass is needed, and sums in fp64 or
  /// fixed point are not rounded to the parameters' dtype. `.grad` is undefined afterwards.
  template <StepsByMeanGradient Optimizer>
  StepReport step(Optimizer& optimizer, double lr) {
    return step_by([&](accum::MeanGradient&& mean) { step_once(optimizer, std::move(mean), lr); });
  }
  /// Passes the mean gradient to `take_step`. It is also in `.grad`, divided and in each
  /// parameter's dtype, which costs a pass over the sums: optimizers of torch::optim, one or
  /// several, may step there.
  ///
  ///   acc.step([&](accum::MeanGradient&&) { generator.step(); encoder.step(); });
  using StepFunction = std::function<void(accum::MeanGradient&&)>;
  StepReport step(const StepFunction& take_step);

  /// Like step(), for a short last window; returns `stepped = false` if nothing is pending. With
  /// several ranks, it returns when all ranks are in it: until then this rank takes part in the
  /// windows of ranks that have micro-batches left, and steps with them.
  StepReport finish(torch::optim::Optimizer& optimizer);
  template <StepsByMeanGradient Optimizer>
  StepReport finish(Optimizer& optimizer, double lr) {
    return finish_by(
        [&](accum::MeanGradient&& mean) { step_once(optimizer, std::move(mean), lr); });
  }
  StepReport finish(const StepFunction& take_step);

  /// Drops the open window, if any.
  void discard();

  /// Returns the window as a scope: if it is left without step(), by return or exception, the
  /// window is discarded. Throws a usage Error if a window is open.
  AccumulatorScope window();

  /// state() copies only this rank's sums, and no residuals of compression. Call both between
  /// micro-batches. load() throws a usage Error if a window is open or the sums do not fit the
  /// parameters.
  AccumulatorState state() const;
  void load(const AccumulatorState& state);

 private:
  /// The loss of a micro-batch, its size in the unit of the batch, and its samples.
  struct Micro {
    Loss loss;
    double sum = 0;
    double units = 0;
    double samples = 0;           ///< number of samples, if known
    std::vector<double> weights;  ///< of each loss, if there are several
    std::vector<std::int64_t> sample_ids;
    std::optional<std::int64_t> first_entry{};  ///< of the micro-batch that this is a part of
    /// The weights of all losses, also if there is only one.
    std::vector<double> all_weights() const {
      return weights.empty() ? std::vector<double>{loss.weight} : weights;
    }
  };

  void open_lazily();
  double units_of(const Loss& loss, const BatchSize& size,
                  const std::vector<std::int64_t>& sample_ids) const;
  double samples_of(double units, const BatchSize& size) const;
  void add(Micro micro);
  void add_once(Micro& micro, bool is_last);
  bool can_split(const Micro& micro, const std::exception& error) const;
  void run_in_parts(const Micro& whole, bool is_last, const std::exception& error);
  Micro part_of(const Micro& whole, std::int64_t begin, std::int64_t end);
  void differentiate(const Loss& loss) const;
  void guarded(const std::function<void()>& backward, Loss& loss);
  Loss replay(const MicroRef& micro);
  std::vector<Loss> forward_again(const MicroRef& micro) const;
  Micro weighed(const std::vector<Loss>& losses) const;
  static bool counts(const Loss& loss);
  bool quarantine(const LedgerEntry& entry);
  void check_quarantined(const char* call) const;
  std::vector<double> loss_weights(MicroStatus status) const;
  void require_totals(const std::vector<double>& seen) const;
  StepReport blank_report() const;
  StepReport report() const;
  void lose(const std::string& reason);
  void drop(const std::string& reason) const;
  bool takes_norm() const { return options_.check_finite || options_.clip_norm > 0; }
  void apply(accum::MeanGradient gradient, const StepFunction& take_step, StepReport& report);
  void emit(const char* name, const std::string& reason) const;
  void warn(const char* name, const std::string& reason) const;
  void look_for_batch_norms();
  void look_at_first_window();
  void see_part(double weight, bool is_last);
  void read_noise(accum::MeanGradient& gradient, StepReport& report);
  /// These take a function that does not read `.grad`.
  StepReport step_by(const StepFunction& take_step);
  StepReport finish_by(const StepFunction& take_step);
  StepReport close(const StepFunction& take_step);
  template <class Optimizer>
  void step_once(Optimizer& optimizer, accum::MeanGradient&& mean, double lr) const {
    optimizer.step(std::move(mean), lr);
    take_grads_away();
  }
  void take_grads_away() const;
  /// Calls `act`. If an `Expected` exception leaves it, the other ranks fail with that reason.
  template <class Expected, class Act>
  auto among_ranks(const Act& act) {
    try {
      return act();
    } catch (const Expected& error) {
      report_to_ranks(error.what());
      throw;
    }
  }
  void report_to_ranks(const char* reason) noexcept;
  std::optional<std::int64_t> own_batch() const;
  bool would_fill(double units) const;
  std::int64_t micro_batches_in() const;

  class Ranks;

  std::unique_ptr<accum::SingleThreadGuard> thread_;
  AccumulatorOptions options_;
  accum::FindBatchNorms find_batch_norms_;
  bool told_of_batch_norms_ = false;
  bool looked_at_window_ = false;
  bool micro_statistics_ = false;  ///< a batch normalisation uses statistics of micro-batches
  std::unique_ptr<Ranks> ranks_;   ///< null: this process is alone
  accum::Window window_;
  std::optional<accum::WindowShare> share_;  ///< of the window that is open or comes next
  bool next_is_last_ = false;                ///< set by next_is_last()
  std::int64_t out_of_memory_ = 0;           ///< times in the open window
  Stopwatch since_start_;
  Stopwatch since_open_;
  AccumulatorState counters_;  ///< its `window` stays empty: window_ holds that
};

/// One window of an Accumulator, dropped unless stepped. See Accumulator::window().
class AccumulatorScope {
 public:
  ~AccumulatorScope();
  AccumulatorScope(const AccumulatorScope&) = delete;
  AccumulatorScope& operator=(const AccumulatorScope&) = delete;

  void backward(Loss loss) { accumulator_->backward(std::move(loss)); }
  void backward(Loss loss, BatchSize size, std::vector<std::int64_t> sample_ids = {});
  template <std::same_as<at::Tensor> Tensor, class... Rest>
  void backward(const Tensor& /*mean*/, const Rest&... /*rest*/) {
    detail::refuse_tensor_as_loss<AccumulatorScope, Tensor>();
  }
  bool full() const { return accumulator_->full(); }
  StepReport step(torch::optim::Optimizer& optimizer) { return accumulator_->step(optimizer); }
  template <StepsByMeanGradient Optimizer>
  StepReport step(Optimizer& optimizer, double lr) {
    return accumulator_->step(optimizer, lr);
  }
  StepReport step(const Accumulator::StepFunction& take) { return accumulator_->step(take); }

 private:
  friend class Accumulator;
  explicit AccumulatorScope(Accumulator* accumulator) : accumulator_(accumulator) {}
  Accumulator* accumulator_;
};

}  // namespace accrue
