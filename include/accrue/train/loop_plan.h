#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/core/recompute.h"
#include "accrue/train/step.h"

namespace accrue::models {
class Trainable;
}

namespace accrue {

/// The options of a plan for a custom loop.
struct LoopPlanOptions {
  /// The memory budget, in the form of memory.budget in a config: "6GiB", "auto", "none". Empty:
  /// the current budget (memory::set_budget); without one, preferably half of the free memory,
  /// which is exceeded if nothing fits in it. A budget stated here is enforced during the trials if
  /// memory::install_caching_allocator() was called; otherwise it is only compared with the memory
  /// of the tensors.
  std::string budget{};
  /// Samples per optimizer step. 0: those of the accumulator's batch, or else of `batch`.
  std::int64_t batch_samples = 0;
  /// Bytes that the loop will need besides parameters and gradients and that are not allocated yet:
  /// for Adam before its first step twice the parameters. They are reserved during the trials.
  std::int64_t reserve_bytes = 0;
  /// Called for each trial, for example with "trying 8 samples".
  std::function<void(const std::string& what)> progress{};
};

/// A micro-batch that was considered, with the names of `accrue plan --json`.
struct LoopPlanEntry {
  std::int64_t micro_batch = 1;    ///< samples
  std::int64_t micro_batches = 1;  ///< of a whole batch
  Recompute recompute = Recompute::none;
  std::int64_t predicted_peak_bytes = 0;  ///< of all tensors together
  double predicted_seconds_per_micro_batch = 0;
  double seconds_per_sample = 0;
  bool within_limit = true;
};

/// How to run a batch in a custom loop.
struct LoopPlan : LoopPlanEntry {
  std::int64_t batch_samples = 0;
  std::int64_t measured_peak_bytes = 0;  ///< of this micro-batch, run once more
  std::string reason;                    ///< for this micro-batch and recomputation
  std::string recompute_reason;          ///< why nothing is recomputed; empty if the model has cuts
  /// Other choices that none beats in both bytes and seconds, fastest first, also above the limit.
  std::vector<LoopPlanEntry> alternatives;
};

namespace detail {

/// A loop's model and data, in the form that trials need.
struct PlannedLoop {
  SteppedModel model;
  /// The buffer that sums gradients; null: made for the trials.
  std::shared_ptr<accum::GradientBuffer> sums;
  RunSlice run;
  std::int64_t samples = 0;  ///< of the available batch
  bool repeats = false;      ///< `run` can repeat samples to give any number of them
  BatchSize batch{};         ///< of an optimizer step, if it is stated
};

LoopPlan plan_loop(const PlannedLoop& loop, const LoopPlanOptions& options);
/// Throws the usage Error for a plan inside an open window, whose sums trials would lose.
[[noreturn]] void refuse_plan_in_window();

/// The first samples of a batch, repeated from its beginning if it has fewer.
at::Tensor repeated(const at::Tensor& batch, std::int64_t samples);
std::vector<at::Tensor> repeated(const std::vector<at::Tensor>& batch, std::int64_t samples);

template <class Model, class Batch, class LossFn>
LoopPlan plan_loop(Model& model, const Batch& batch, LossFn& loss_fn, const BatchSize& size,
                   std::shared_ptr<accum::GradientBuffer> sums, const LoopPlanOptions& options) {
  if constexpr (is_steppable<Model, Batch>()) {
    if constexpr (gives_a_loss<Model, Batch, LossFn>()) {
      constexpr bool repeats = requires { repeated(batch, std::int64_t{}); };
      const auto run = [&](std::int64_t begin, std::int64_t end) -> Loss {
        if constexpr (repeats)
          if (end > batch_size(batch)) return loss_fn(model, repeated(batch, end));
        return loss_fn(model, batch_slice(batch, begin, end));
      };
      return plan_loop({stepped(model), std::move(sums), run, batch_size(batch), repeats, size},
                       options);
    }
  }
  return {};  // the compiler has reported the missing function
}

}  // namespace detail

/// Selects the micro-batch for a custom loop: the fastest that stays within the memory, by the
/// planner of `accrue plan` and Trainer (docs/guide/plan.md). A few micro-batches of `batch` run
/// forward and backward and are measured. A tensor or a vector of tensors is repeated if it has
/// fewer samples than a trial needs; for other batch types, trials are limited to the samples of
/// `batch`, which should be the longest ones.
///
///   const accrue::LoopPlan plan = accrue::plan(model, batch, loss_fn, {.budget = "6GiB"});
///   for (auto& micro : loader_of(plan.micro_batch)) ...
///
/// Restores everything: parameters, buffers, `.grad`, libtorch's random generators. A module has no
/// cuts for recomputation; LoopPlan::recompute_reason states that. Throws a usage Error if the
/// batch has no sample, a window is open, loss_fn changes a parameter (named, and restored), or its
/// losses are not sums (the loss of a batch must agree with those of its halves). Throws a refused
/// Error with the missing bytes if not even a single sample fits.
template <class Model, class Batch, class LossFn>
requires(!std::same_as<std::remove_cvref_t<LossFn>, LoopPlanOptions>) LoopPlan
    plan(Model& model, const Batch& batch, LossFn&& loss_fn, const LoopPlanOptions& options = {}) {
  return detail::plan_loop(model, batch, loss_fn, {}, nullptr, options);
}

/// Also selects the recomputation, for a chain of segments, like memory.recompute = "auto"; runs
/// the model's losses. Throws the errors of plan() for a module.
LoopPlan plan(models::Trainable& model, const batch::MicroBatch& batch,
              const LoopPlanOptions& options = {});

template <class Model, class Batch, class LossFn>
LoopPlan Accumulator::plan(Model& model, const Batch& batch, LossFn&& loss_fn,
                           const LoopPlanOptions& options) {
  if (pending()) detail::refuse_plan_in_window();
  return detail::plan_loop(model, batch, loss_fn, options_.batch, window_.buffer(), options);
}
template <class Model, class Batch, class LossFn>
LoopPlan Accumulator::plan(Model& model, const Batch& batch, LossFn&& loss_fn) {
  return plan(model, batch, loss_fn, LoopPlanOptions{});
}

}  // namespace accrue
