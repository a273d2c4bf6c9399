#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/train/effective_batch.h"
#include "memory/plan.h"
#include "train/plan/offload_forecast.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The result of a precision that was not requested.
struct Bf16Twin {
  std::int64_t peak_bytes = 0;
  double micro_batch_seconds = 0;
};

/// The contents of `accrue plan`. Predictions are for the longest samples of the data.
struct PlanReport {
  memory::PlanQuestion question;
  std::vector<memory::Fact> facts;  ///< the facts that the plan is based on
  /// By the seconds of compute, without those in which trials waited for offloaded state. With
  /// `offload` the windows of alternatives include their transfers.
  memory::Plan plan;
  /// The chosen point, run once more; the peak of a whole step, and the seconds of compute.
  memory::Measured measured;
  /// Measured seconds of the gradient's norm, clipping and the optimizer. None if gradients are
  /// folded into the optimizer's state: a trial then takes no step, and the prediction for a whole
  /// step does not contain them.
  std::optional<double> closing_seconds;
  /// The plan's point in bf16, which is only ever chosen on request; set only if fp32 is requested,
  /// the model has bf16 and a trial is short.
  std::optional<Bf16Twin> bf16;
  /// Set if the state is offloaded; then it predicts the step, whose passes read it once for all
  /// micro-batches, while each trial reads it once for one.
  std::optional<OffloadForecast> offload;
  std::int64_t parameters = 0;
  std::vector<std::string> remarks;  ///< on data and model, as in RunPlan
  std::int64_t batch_tokens = 0;     ///< 0 for images
  EffectiveBatch effective;          ///< a full batch, divided among the ranks
  double seconds_per_step() const {
    if (offload) return offload->seconds();
    return plan.chosen.window_seconds + seconds_outside_passes();
  }
  /// Of a step: norm, clipping and the optimizer; 0 if not known.
  double seconds_outside_passes() const {
    return offload ? offload->step_seconds : closing_seconds.value_or(0);
  }
};

struct PlanRunOptions {
  std::function<void(const std::string& what)> progress;  ///< called for each trial
  ShowProgress show = {};  ///< shows what comes before the trials: data and model are opened
  std::int64_t ranks = 1;  ///< those of the run, each on a machine like this one
};

/// Plans the config's run and measures the plan. Nothing is written. Throws as training would if
/// the config or the data are wrong, and a refused Error if nothing fits into the budget.
PlanReport plan_run(const Config& config, const PlanRunOptions& options = {});

}  // namespace accrue::train
