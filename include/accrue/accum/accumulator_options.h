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

/// A size in the unit that a batch is stated in; nothing: not stated.
using BatchSize = std::variant<std::monostate, Tokens, Samples>;

struct AccumulatorOptions {
  /// The optimisation batch, over all ranks. A micro-batch counts by what `backward` was told; of a
  /// batch in tokens without that by its loss's weight, of one in samples by its sample ids.
  BatchSize batch{};
  /// How many micro-batches (of this rank) make a window, instead of `batch`. With neither, full()
  /// is never true and the loop decides when to step.
  std::int64_t micro_batches = 0;
  /// The precision of the gradients' sums. `accum::Accumulation::fp32` costs nothing extra; `fixed`
  /// wants a `replay`: without one a contribution too large for its units costs the window.
  accum::Accumulation accumulate = accum::Accumulation::fp32;
  std::uint64_t rounding_seed = 0;  ///< keys accum::Accumulation::bf16_stochastic
  double clip_norm = 0;             ///< global norm of the mean gradient; 0: off
  /// Computes the mean gradient's norm, one pass per window. If it is not finite, the
  /// micro-batches that made it so are found by `replay` and quarantined; without one the window is
  /// dropped.
  bool check_finite = true;
  /// Refuses a window in which parameters were changed between micro-batches, which loses it. Off,
  /// for a model that writes its own weights in forward(): weight normalisation or a constraint
  /// through data(), embeddings with max_norm. The window's mean is then of whatever weights each
  /// micro-batch had, and a step() of somebody else within it passes unseen. Sums are compared all
  /// the same.
  bool watch_parameters = true;
  /// Micro-batches of one window, over all ranks, that may be quarantined for a loss or gradient
  /// that is not finite; one more is a runtime Error.
  std::int64_t max_quarantined = 16;
  /// Runs a committed micro-batch's forward again, so that one that failed half-way, or has a
  /// gradient that is not finite, costs a replay and not the window. Without it such a window is
  /// lost: full() is true at once and step() reports it.
  std::function<Loss(const MicroRef&)> replay{};
  /// Does what `replay` does, for windows of several losses (see expect()).
  std::function<std::vector<Loss>(const MicroRef&)> replay_losses{};
  /// A micro-batch that runs out of memory in backward() and has sample ids is run by the replay
  /// once more, and then in halves (see backward()). Off: the exception goes to the caller.
  bool split_out_of_memory = true;
  /// Sees (and may change) the mean gradient, in `.grad` too (of fp16 and bf16 parameters a copy in
  /// their dtype), before clipping and the optimizer, as a Trainer's hook does: what it writes
  /// counts in StepReport::grad_norm and is clipped. If it leaves a norm that is not finite, and
  /// `check_finite` or `clip_norm` is set, the window is dropped. Of several ranks, it is to write
  /// the same on each.
  std::function<void(accum::MeanGradient&)> on_mean_gradient{};
  /// Measures the noise of the gradient by the window's first micro-batch, whose sums take one more
  /// pass over memory: StepReport::noise_scale and its neighbours, as averages over steps. With
  /// `group`, each rank's first micro-batch counts, one alone where SharingOptions::overlap is off.
  /// Windows of one micro-batch, of several losses, or with a quarantined one tell nothing.
  bool measure_noise = false;
  /// Told of what happens besides, each with its reason: "quarantined", "dropped", "out_of_memory",
  /// and once "batchnorm", "unused" (parameters that no loss of the first window reached),
  /// "loss_weight" (losses that look like means) and "repeated_samples". Without it, what comes
  /// once is a warning by TORCH_WARN, and the others are silent.
  std::function<void(const Event&)> on_event{};
  /// The ranks that share each window, which distributed::join() makes; null: this process is
  /// alone. See Accumulator for what changes.
  std::shared_ptr<accum::RankGroup> group{};
  accum::SharingOptions sharing{};
};

}  // namespace accrue
