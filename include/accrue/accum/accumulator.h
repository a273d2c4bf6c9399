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
class OneThread;
}

struct LoopPlan;
struct LoopPlanOptions;

namespace detail {

/// What a `Receiver` of losses says to a tensor, which is the mean more often than the sum.
template <class Receiver, class Tensor>
constexpr void refuse_tensor_as_loss() {
  static_assert(!std::same_as<Tensor, at::Tensor>,
                "accrue: backward takes accrue::Loss{sum, weight} and not a tensor: the sum of the "
                "loss's terms and how many there are; of a mean over n terms, "
                "accrue::Loss{mean * n, n}");
}

}  // namespace detail

/// An accumulator in the middle of anything, as plain data (see accumulator_archive.h for files).
struct AccumulatorState {
  accum::WindowState window;
  std::int64_t steps = 0;              ///< optimizer steps taken
  std::int64_t windows = 0;            ///< windows opened
  double window_units = 0;             ///< counted so far in the open window, in the batch's unit
  double total_units = 0;              ///< counted in all windows that were closed
  adapt::NoiseAverage::State noise{};  ///< of all windows that were closed
  /// Of the open window's first micro-batch: what noise is measured by.
  std::optional<adapt::NoiseSample> noise_part{};
  /// Tells for each ledger entry of the open window, in order, the first entry of its micro-batch:
  /// that is itself but if a micro-batch was split.
  std::vector<std::int64_t> first_entries{};
  std::optional<LossTotals> losses{};  ///< what expect() said of the open window
  std::vector<std::vector<double>>
      loss_weights{};  ///< of the open window's micro-batches, in order
};

class AccumulatorScope;

/// Whoever steps by a MeanGradient itself, which is sums and their scale: accrue::optim::Optimizer.
template <class Optimizer>
concept StepsByMeanGradient = requires(Optimizer& optimizer, accum::MeanGradient&& gradient,
                                       double lr) {
  optimizer.step(std::move(gradient), lr);
};

/// Gradient accumulation for an existing loop: backward() as often as memory wants, one step() per
/// batch.
///
///   accrue::Accumulator acc(model, {.batch = accrue::Tokens{524'288}});
///   for (auto& micro : loader) {
///     acc.backward(loss_fn(model, micro));
///     if (acc.full()) acc.step(optimizer);
///   }
///   acc.finish(optimizer);
///
/// A window is open from its first backward() to step(). While it is, zero_grad(), clipping, a
/// plain backward(), step() and model->to() by others are refused, by backward() and step() (see
/// accum::Window). What leaves no other trace, such as libtorch's SGD and whoever writes through
/// data(), is found by a few elements of each parameter and sum, so that a write to some other
/// elements alone is not; on a GPU, step() tells of it. Parameters frozen at construction are left
/// out; tied ones count once; what a window did not use keeps an undefined `.grad`, so torch::optim
/// skips it. After step() `.grad` holds the mean gradient that was used, until the next window
/// opens (of fp32 and fp64 parameters; of narrower ones during the step alone), but of a step that
/// reads no `.grad`.
///
/// Any thread may call, one at a time: a call while another thread is in one is a usage Error.
/// Hooks of a backward() may ask full(), pending() and current_window() on autograd's threads, too.
/// The model is to stay as it is: after model->to() of another device or dtype the next window is a
/// usage Error.
///
/// Made from a model, it also sees batch normalisations that take the statistics of each
/// micro-batch if a window has more than one: StepReport::batchnorm says so, and
/// AccumulatorOptions::on_event once.
///
/// With AccumulatorOptions::group each rank has an accumulator of its own, made alike, to which it
/// gives its own micro-batches; how many does not matter, and a rank that has none calls step()
/// without a backward(). Sums, weights and losses are added up over the ranks once, in step(), or
/// while the backward runs that fills this rank's share; then all take the same step, or none.
/// full() tells of this rank's share: an equal part of `batch`, or what share() said. An Error that
/// leaves a call ends all ranks with its reason, and so do ranks whose parameters differ.
class Accumulator {
 public:
  /// Takes a model with named_parameters(): a torch::nn module or its holder, a TorchScript module.
  /// It must outlive this object where it is no holder. Throws a usage Error if nothing is to be
  /// trained, `options` contradict each other, or a parameter belongs to an open window.
  template <detail::HasNamedParameters Model>
  explicit Accumulator(const Model& model, AccumulatorOptions options = {})
      : Accumulator(detail::named_parameters_of(model), std::move(options),
                    accum::find_batch_norms_in_training(model)) {}
  /// Errors name parameters as these names do.
  explicit Accumulator(const NamedParameters& parameters, AccumulatorOptions options = {},
                       accum::FindBatchNorms batch_norms = {});
  /// Takes what model->named_parameters() gives.
  template <detail::ListOfNamed List>
  explicit Accumulator(const List& parameters, AccumulatorOptions options = {})
      : Accumulator(detail::named(parameters), std::move(options)) {}
  /// Names the parameters "0", "1", ... in order.
  explicit Accumulator(const std::vector<at::Tensor>& parameters, AccumulatorOptions options = {});
  ~Accumulator();
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  /// One micro-batch: differentiates `loss.sum` with respect to these parameters and no others (two
  /// models with an accumulator each never touch each other's gradients) and adds it to the window.
  /// A micro-batch whose loss is not finite is quarantined, and the window goes on. What
  /// autograd throws goes on to the caller after the micro-batch was undone; its graph is freed
  /// before others run again, where the caller keeps no other reference to `loss.sum`.
  void backward(Loss loss);
  /// `size` says how much of the batch this micro-batch is, if the loss's weight is not in the
  /// unit that the batch is stated in. Of a batch in samples a weight is no count of them: a usage
  /// Error if neither `size` nor `sample_ids` are told.
  ///
  /// If `sample_ids` are told and there is a replay, a micro-batch that runs out of memory here
  /// (c10::OutOfMemoryError, std::bad_alloc) is undone, and its samples run by the replay: once
  /// more, then in halves, in the order of their ids, each an entry of the ledger. The window goes
  /// on as if it had been split so from the start, and StepReport::retries counts. The replay is to
  /// be the sum over just the samples that MicroRef::sample_ids has; parts whose weights do not
  /// come to the whole's are a usage Error. If a single sample does not fit, a refused Error
  /// says what to try. Either loses the window. What batch normalisation takes its statistics from
  /// is not halved.
  void backward(Loss loss, BatchSize size, std::vector<std::int64_t> sample_ids = {});
  /// A tensor is no Loss: the compiler says what to write instead.
  template <std::same_as<at::Tensor> Tensor, class... Rest>
  void backward(const Tensor& /*mean*/, const Rest&... /*rest*/) {
    detail::refuse_tensor_as_loss<Accumulator, Tensor>();
  }

  /// How large the micro-batches of this accumulator's windows may be: accrue::plan(), with its
  /// batch, and its sums for the trials, so that a mean gradient of the last window is gone from
  /// `.grad`. Defined by accrue/train/loop_plan.h, since trials need rooms below this one.
  template <class Model, class Batch, class LossFn>
  LoopPlan plan(Model& model, const Batch& batch, LossFn&& loss_fn);
  template <class Model, class Batch, class LossFn>
  LoopPlan plan(Model& model, const Batch& batch, LossFn&& loss_fn, const LoopPlanOptions& options);

  /// This rank's samples of the window to come, of a batch of `size` over all ranks (without it,
  /// AccumulatorOptions::batch): by the speeds that were measured between share() and step() of
  /// windows before, so it is to be asked for before the share's data are read, on all ranks, for
  /// each window or for none. Throws a usage Error if a window is open.
  ///
  ///   const accum::WindowShare mine = acc.share(Samples{256});
  ///   for (begin = mine.begin; begin < mine.end; ...) acc.backward(loss_fn(...), Samples{8});
  ///   acc.step(optimizer);
  accum::WindowShare share(BatchSize size = {});
  /// Says that the next backward() is this rank's last of the window, if neither the batch nor a
  /// number of micro-batches does: what is ready of its gradients then travels meanwhile.
  void next_is_last();

  /// Opens a window of several losses with denominators of their own (see LossTotals): their total
  /// weights over the window, counted from the labels before its first backward; of several ranks,
  /// each says its own, also if it has no micro-batch. Throws a usage Error if a window is
  /// open.
  ///
  ///   acc.expect({{tokens_of_window, boxes_of_window}, {1.0, 0.25}});
  ///   for (auto& micro : window) acc.backward(std::vector{token_loss, box_loss}, Samples{8});
  ///   acc.step(optimizer);
  ///
  /// step() throws a usage Error if the weights seen do not come to the totals. If a
  /// micro-batch is quarantined, its weights leave the totals and the others run again by
  /// `replay_losses`.
  void expect(LossTotals totals);
  /// One micro-batch of the window that expect() opened, each loss once; without it, several losses
  /// are a usage Error. Without `size`, it counts by the weight of the first loss that has any. The
  /// graph of losses that are made in the call, or moved into it, is freed before others run again.
  void backward(std::vector<Loss> losses, BatchSize size = {},
                std::vector<std::int64_t> sample_ids = {});

  /// Differentiates `outputs` with the upstream `gradients` into the open window, as a micro-batch
  /// without a loss or weight of its own: the earlier part of a graph whose loss was differentiated
  /// down to `outputs` by a backward() of this window. Throws a usage Error if none is open, or
  /// with a replay, which cannot repeat it.
  void backward_from(const std::vector<at::Tensor>& outputs,
                     const std::vector<at::Tensor>& gradients);

  /// The batch of the windows to come, in the unit that it is stated in. Throws a usage Error if
  /// a window is open, or no batch was stated in that unit.
  void set_batch(BatchSize batch);

  /// Whether the window holds its batch (or was lost, and nothing more can come of it).
  bool full() const;
  /// Whether a window is open.
  bool pending() const;
  const accum::Window& current_window() const;

  /// Closes the window: mean gradient, clipping, one optimizer step. The optimizer may not hold
  /// trained parameters that are not accumulated here. Throws a usage Error if no window is open
  /// and no other rank can have one.
  StepReport step(torch::optim::Optimizer& optimizer);
  /// Has an accrue::optim::Optimizer, or a class like it, take the step with learning rate `lr`.
  /// It divides the sums while it reads them: no pass does that before, and sums in fp64 or fixed
  /// point are not rounded to the parameters' dtype. `.grad` is undefined afterwards.
  template <StepsByMeanGradient Optimizer>
  StepReport step(Optimizer& optimizer, double lr) {
    return step_by([&](accum::MeanGradient&& mean) { step_once(optimizer, std::move(mean), lr); });
  }
  /// Hands the gradient to any other consumer. It is in `.grad`, too, as the mean and in each
  /// parameter's dtype, which costs a pass over the sums: one or several optimizers of torch::optim
  /// may step there.
  ///
  ///   acc.step([&](accum::MeanGradient&&) { generator.step(); encoder.step(); });
  using StepFunction = std::function<void(accum::MeanGradient&&)>;
  StepReport step(const StepFunction& take_step);

  /// step() for a short last window; reports `stepped = false` if nothing is pending. Of several
  /// ranks, it returns when all are in it: meanwhile this one takes part in the windows of those
  /// that have micro-batches left, and steps with them.
  StepReport finish(torch::optim::Optimizer& optimizer);
  template <StepsByMeanGradient Optimizer>
  StepReport finish(Optimizer& optimizer, double lr) {
    return finish_by(
        [&](accum::MeanGradient&& mean) { step_once(optimizer, std::move(mean), lr); });
  }
  StepReport finish(const StepFunction& take_step);

  /// Drops the open window, if any.
  void discard();

  /// A window as a scope: left without step(), by return or exception, it is discarded. Throws a
  /// usage Error if a window is open.
  AccumulatorScope window();

  /// state() copies, of this rank's sums alone, and nothing of what compression kept. Both are for
  /// between micro-batches; load() throws a usage Error if a window is open or the sums do not
  /// fit the parameters.
  AccumulatorState state() const;
  void load(const AccumulatorState& state);

 private:
  /// A micro-batch's loss, its size in the unit of the batch, and its samples.
  struct Micro {
    Loss loss;
    double sum = 0;
    double units = 0;
    double samples = 0;           ///< of them, where they are stated in samples
    std::vector<double> weights;  ///< of each loss, if there are several
    std::vector<std::int64_t> sample_ids;
    std::optional<std::int64_t> first_entry{};  ///< of the micro-batch that this is a part of
    /// The weights of all its losses, also of one.
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
  /// These take what reads no `.grad`.
  StepReport step_by(const StepFunction& take_step);
  StepReport finish_by(const StepFunction& take_step);
  StepReport close(const StepFunction& take_step);
  template <class Optimizer>
  void step_once(Optimizer& optimizer, accum::MeanGradient&& mean, double lr) const {
    optimizer.step(std::move(mean), lr);
    take_grads_away();
  }
  void take_grads_away() const;
  /// Calls `act`. If an `Expected` exception leaves it, the other ranks end with that reason.
  template <class Expected, class Act>
  auto among_ranks(const Act& act) {
    try {
      return act();
    } catch (const Expected& error) {
      tell_ranks(error.what());
      throw;
    }
  }
  void tell_ranks(const char* reason) noexcept;
  std::optional<std::int64_t> own_batch() const;
  bool would_fill(double units) const;
  std::int64_t micro_batches_in() const;

  class Ranks;

  std::unique_ptr<accum::OneThread> thread_;
  AccumulatorOptions options_;
  accum::FindBatchNorms find_batch_norms_;
  bool told_of_batch_norms_ = false;
  bool looked_at_window_ = false;
  bool micro_statistics_ = false;  ///< a batch normalisation takes statistics of micro-batches
  std::unique_ptr<Ranks> ranks_;   ///< null: this process is alone
  accum::Window window_;
  std::optional<accum::WindowShare> share_;  ///< of the window that is open or comes next
  bool next_is_last_ = false;                ///< as next_is_last() said
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
