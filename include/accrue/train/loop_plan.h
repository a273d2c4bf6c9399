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

/// What a plan for a loop of one's own is made within.
struct LoopPlanOptions {
  /// The memory, in the words of a config's memory.budget: "6GiB", "auto", "none". Empty: the
  /// budget that holds (memory::set_budget); without one a preference for half of what is free,
  /// which is exceeded if nothing stays within it. A budget that is stated here holds during the
  /// trials, where memory::install_caching_allocator() was called; elsewhere what tensors take is
  /// compared with it.
  std::string budget{};
  /// Samples of one optimizer step. 0: those of the accumulator's batch, else of the `batch` given.
  std::int64_t batch_samples = 0;
  /// What will be held besides parameters and gradients once the loop runs and is not there yet: of
  /// Adam before its first step twice the parameters. It is held during the trials.
  std::int64_t reserve_bytes = 0;
  /// Told of each trial, as in "trying 8 samples".
  std::function<void(const std::string& what)> progress{};
};

/// A micro-batch that was considered; the names are those of `accrue plan --json`.
struct LoopPlanEntry {
  std::int64_t micro_batch = 1;    ///< samples
  std::int64_t micro_batches = 1;  ///< of a whole batch
  Recompute recompute = Recompute::none;
  std::int64_t predicted_peak_bytes = 0;  ///< all that tensors take at once
  double predicted_seconds_per_micro_batch = 0;
  double seconds_per_sample = 0;
  bool within_limit = true;
};

/// How to run a batch in a loop of one's own.
struct LoopPlan : LoopPlanEntry {
  std::int64_t batch_samples = 0;
  std::int64_t measured_peak_bytes = 0;  ///< of this micro-batch, run once more
  std::string reason;                    ///< why this micro-batch and recomputation
  std::string recompute_reason;          ///< why nothing is recomputed; empty if the model has cuts
  /// What nothing beats in both bytes and seconds besides, fastest first, also beyond the limit.
  std::vector<LoopPlanEntry> alternatives;
};

namespace detail {

/// A loop's model and data by what trials need of them.
struct PlannedLoop {
  SteppedModel model;
  /// Where gradients are added up; null: made for the trials.
  std::shared_ptr<accum::GradientBuffer> sums;
  RunSlice run;
  std::int64_t samples = 0;  ///< of the batch at hand
  bool repeats = false;      ///< `run` gives any number of samples, by repeating those at hand
  BatchSize batch{};         ///< of an optimizer step, where it is stated
};

LoopPlan plan_loop(const PlannedLoop& loop, const LoopPlanOptions& options);
/// Throws the usage Error of a plan between a window's micro-batches, whose sums trials would lose.
[[noreturn]] void refuse_plan_in_window();

/// The first samples of a batch, which begins anew if it has no more.
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
  return {};  // the compiler has said what is missing
}

}  // namespace detail

/// Chooses the micro-batch for somebody who writes their own loop: the fastest that stays within
/// the memory, by the planner that `accrue plan` and Trainer ask (docs/guide/plan.md). A few
/// micro-batches of `batch` run forward and backward and are measured; a tensor or a vector of
/// tensors is repeated if it has fewer samples than are tried, of other batches no more are
/// tried than they have, so they should be the longest ones.
///
///   const accrue::LoopPlan plan = accrue::plan(model, batch, loss_fn, {.budget = "6GiB"});
///   for (auto& micro : loader_of(plan.micro_batch)) ...
///
/// All is put back: parameters, buffers, `.grad`, libtorch's random generators. A module has no
/// cuts to recompute from, which LoopPlan::recompute_reason says. Throws a usage Error if the
/// batch has no sample, a window is open, or loss_fn changes a parameter (named; what it changed is
/// put back), or returns losses that are not sums: of a batch and of its halves they have to agree.
/// A refused Error with the missing bytes says that not even a single sample fits.
template <class Model, class Batch, class LossFn>
requires(!std::same_as<std::remove_cvref_t<LossFn>, LoopPlanOptions>) LoopPlan
    plan(Model& model, const Batch& batch, LossFn&& loss_fn, const LoopPlanOptions& options = {}) {
  return detail::plan_loop(model, batch, loss_fn, {}, nullptr, options);
}

/// Chooses the recomputation, too, for a chain of segments, as memory.recompute = "auto" does: its
/// own losses are run. Throws as plan() of a module does.
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
