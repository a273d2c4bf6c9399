#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/core/step_report.h"
#include "accrue/core/stored_tensor.h"
#include "train/run/window_sums.h"
#include "train/workload/run_rates.h"

namespace accrue::train {

/// A model and its optimizer, without data: takes the sums of windows that others ran
/// (WindowWorker), and steps as a run does that has all of their data, with the same bits if the
/// sums have those.
class SumStepper {
 public:
  /// `shape` is that of the workers' data. Throws a usage Error as Trainer does, as
  /// expect_exchangeable_sums() does, or if the run's length or its warm-up depends on data: the
  /// length has to be stated in steps.
  SumStepper(const Config& config, const DataShape& shape);

  std::string frozen_digest() const { return digest_of_frozen(*work_.model); }
  NamedParameters parameters() const { return optim::trained_of(work_.model->parameters()); }
  void load(const NamedParameters& values) { load_trained(*work_.model, values); }
  /// The units that the next window is to have; empty unless the sums are in fixed point.
  std::vector<int> units() const { return buffer_->units(); }
  std::int64_t steps() const { return steps_; }
  std::int64_t total_steps() const { return *work_.config.run.steps; }
  /// batch.samples. Throws a usage Error if the batch is stated in tokens, which only data count.
  std::int64_t batch_samples() const;

  /// Closes window windows() with these sums, of all of its samples, and steps. Sums of weight 0
  /// change nothing but the window's index. Throws a usage Error if the sums do not fit the
  /// parameters, a runtime Error if they are not finite; the parameters are unchanged then.
  StepReport step(const WindowSums& sums);
  std::int64_t windows() const { return windows_; }

  /// The state between steps besides the parameters: the optimizer's, and counts and units.
  struct State {
    NamedParameters optimizer;  ///< copies
    std::int64_t steps = 0, windows = 0;
    std::vector<int> units;
  };
  State state() const;
  /// Throws a usage Error that names the first tensor that does not fit; nothing is changed then.
  void load_state(const State& state);

 private:
  Workload work_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  accum::Window window_;
  RunRates rates_;
  std::int64_t steps_ = 0, windows_ = 0;
};

}  // namespace accrue::train
