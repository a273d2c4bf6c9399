#pragma once

#include <optional>

#include "accrue/accum/mean_gradient.h"
#include "accrue/core/histogram.h"
#include "accrue/core/parameter.h"
#include "train/run/batch_control.h"
#include "train/run/cadence.h"
#include "train/run/run_context.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// Takes histograms of a run's gradients and weights as often as observe.histograms states, on the
/// first rank, with the same values for any number of threads.
class HistogramTaker {
 public:
  /// Both are kept by reference.
  HistogramTaker(const RunContext& run, const BatchControl& batch);

  /// Takes the mean gradient that step `step` is about to use, before clipping, if that step is
  /// due. Gradients that cannot be read here are left out: one that was folded into the optimizer,
  /// or one that is divided among the ranks.
  void see(const accum::MeanGradient& gradient, std::int64_t step);
  /// Adds the weights after that step, and reports both; does nothing if it was not due.
  void tell(const RunLog& log);

 private:
  std::optional<Cadence> cadence_;
  std::optional<StepHistograms> seen_;
  NamedParameters weights_;  ///< for the gradients that were seen
};

/// Why a run's histograms show weights only; empty if they do not.
std::string histogram_remark(const Config& config, const RankSlice& slice);

}  // namespace accrue::train
