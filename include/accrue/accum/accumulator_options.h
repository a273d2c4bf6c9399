#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "accrue/accum/accumulation.h"
#include "accrue/accum/mean_gradient.h"
#include "accrue/accum/shared_sums.h"
#include "accrue/core/ledger.h"
#include "accrue/core/loss.h"
#include "accrue/core/observer.h"
#include "accrue/core/units.h"

namespace accrue {

/// A size in the unit in which the batch is stated; nothing if it is not stated.
using BatchSize = std::variant<std::monostate, Tokens, Samples>;

struct AccumulatorOptions {
  /// The effective batch size, over all ranks. A micro-batch counts by the size passed to
  /// `backward`; without it, by its loss's weight (batch in tokens) or its sample ids (in samples).
  BatchSize batch{};
  /// The number of micro-batches (of this rank) per window, instead of `batch`. If neither is set,
  /// full() is never true and the loop decides when to step.
  std::int64_t micro_batches = 0;
  /// The precision of the gradient sums. `accum::Accumulation::fp32` has no extra cost. `fixed`
  /// needs a `replay`: without one, a contribution too large for its units loses the window.
  accum::Accumulation accumulate = accum::Accumulation::fp32;
  std::uint64_t rounding_seed = 0;  ///< the key of accum::Accumulation::bf16_stochastic
  double clip_norm = 0;             ///< limit of the mean gradient's global norm; 0: off
  /// Computes the norm of the mean gradient, one pass per window. If it is not finite, the `replay`
  /// finds the micro-batches that caused it, and they are quarantined; without a replay the window
  /// is dropped.
  bool check_finite = true;
  /// Refuses a window in which parameters were changed between micro-batches; such a window is
  /// lost. Set to false for a model that writes its weights in forward(): weight normalisation or a
  /// constraint through data(), embeddings with max_norm. The mean then mixes the weights that each
  /// micro-batch had, and a step() of other code in the window is not detected. Sums are still
  /// compared.
  bool watch_parameters = true;
  /// The most micro-batches of one window, over all ranks, that may be quarantined because a loss
  /// or gradient is not finite. One more is a runtime Error.
  std::int64_t max_quarantined = 16;
  /// Runs the forward pass of a committed micro-batch again, so a micro-batch that failed halfway
  /// or has a gradient that is not finite costs a replay and not the window. Without it such a
  /// window is lost: full() becomes true and step() reports it.
  std::function<Loss(const MicroRef&)> replay{};
  /// The same for windows of several losses (see expect()).
  std::function<std::vector<Loss>(const MicroRef&)> replay_losses{};
  /// A micro-batch that runs out of memory in backward() and has sample ids is run again by the
  /// replay, as a whole and then in halves (see backward()). false: the exception is rethrown.
  bool split_out_of_memory = true;
  /// Called with the mean gradient, which it may change (also in `.grad`; for fp16 and bf16
  /// parameters that is a copy in their dtype), before clipping and the optimizer, like a Trainer's
  /// hook. Its changes count in StepReport::grad_norm and are clipped. If the norm is then not
  /// finite, and `check_finite` or `clip_norm` is set, the window is dropped. With several ranks,
  /// it must write the same values on each.
  std::function<void(accum::MeanGradient&)> on_mean_gradient{};
  /// Measures the gradient noise with the window's first micro-batch, whose sums take one more pass
  /// over memory: StepReport::noise_scale etc., averaged over steps. With `group`, the first
  /// micro-batch of each rank counts; a rank's only one, if SharingOptions::overlap is off. Windows
  /// with one micro-batch, several losses or a quarantined micro-batch do not count.
  bool measure_noise = false;
  /// Called for other events, each with its reason: "quarantined", "dropped", "out_of_memory", and
  /// once each "batchnorm", "unused" (parameters that no loss of the first window reached),
  /// "loss_weight" (losses that look like means) and "repeated_samples". If it is not set, the
  /// events that come once are warnings by TORCH_WARN, and the others are silent.
  std::function<void(const Event&)> on_event{};
  /// The ranks that share each window, as distributed::join() makes them; null: this process is
  /// alone. See Accumulator for the differences.
  std::shared_ptr<accum::RankGroup> group{};
  accum::SharingOptions sharing{};
};

}  // namespace accrue
