#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/adapt/batch_controller.h"
#include "accrue/core/step_report.h"
#include "accrue/train/effective_batch.h"
#include "accrue/train/run_plan.h"
#include "batch/schedule.h"
#include "train/checkpoint/train_state.h"
#include "train/run/cadence.h"
#include "train/run/run_context.h"
#include "train/window/noise_meter.h"
#include "train/window/runner.h"
#include "train/workload/run_rates.h"

namespace accrue::train {

/// The batch of each window of a run, and the learning rate that goes with it: as the config states
/// them, as they are decided on the way (adapt.batch), or as the batch is changed by hand when the
/// run is resumed. Decisions follow from what all ranks have in common, so that all take the same
/// ones; they are kept in the state, and a run that is resumed repeats none of them. Until the
/// window of a change by hand comes, all is as if there were none.
class BatchControl {
 public:
  /// Both are kept by reference; the decisions in `state` are in force.
  BatchControl(const RunContext& run, const TrainState& state);

  batch::Range window(std::int64_t index) const { return schedule_.window(index); }
  double epoch_at(std::int64_t window) const { return schedule_.epoch_at(window); }
  /// The cadence of `every`; `key` is the config's, for errors. Keeps a reference to this.
  Cadence cadence(const Duration& every, const char* key) const;
  /// The run's length in windows, as far as known.
  std::int64_t total_windows() const { return total_; }

  /// Samples of this rank's micro-batches in a share of `samples` of the next window, if memory
  /// allows `most`. Sizes are as equal as possible; where decisions need the noise that only
  /// several micro-batches show, one is now and then split into two. Always `most` if the batch
  /// does not change, and if micro-batches have one size.
  std::int64_t micro_batch(std::int64_t samples, std::int64_t most) const;

  /// Of the next window.
  double learning_rate() const;
  std::optional<optim::RateFall> rate_fall() const;
  /// The second moment's decay in the next step; none if it does not follow the batch.
  std::optional<double> beta2() const;
  /// A remark on the batch of the next window, if the config states another one than
  /// before.
  std::optional<std::string> change_ahead() const;

  /// Takes in a window that `state` already includes, and the reading of its noise.
  void update(const WindowRun& window, std::int64_t samples, bool stepped,
              const std::optional<NoiseReading>& reading, TrainState& state) const;
  /// Decides about the batch from the window ahead on, and returns a remark about it, if any. A
  /// change by hand is in force from here on if its window is ahead (change_ahead() has it).
  std::optional<std::string> decide(TrainState& state);
  /// Call it when the state has become an earlier one.
  void restore();

  /// The run's plan, for people: if the batch was changed by hand, with that of the next window.
  RunPlan plan_ahead() const;
  /// Reports the run's length if it is another one than at its start.
  void report_length(StepReport& report) const;
  /// Reports the noise known so far; `blocks` are the names of the blocks in the state.
  void report(const std::vector<std::string>& blocks, StepReport& report) const;

 private:
  bool may_change() const { return schedule_.changing != nullptr; }
  bool is_probed(std::int64_t samples, std::int64_t most) const;
  double batch_of(std::int64_t window) const;
  EffectiveBatch batch_ahead() const;
  std::optional<double> rate_factor() const;
  adapt::BatchBounds bounds() const;
  std::vector<BatchChange> changes_in_force() const;
  void enforce(std::vector<BatchChange> changes);
  std::string batch_in_words(double batch) const;
  std::string split_in_words() const;

  const RunContext& run_;
  const Config& config_;
  const TrainState& state_;
  SampleFacts samples_;
  bool has_one_micro_batch_;
  batch::WindowSchedule as_begun_;  ///< of windows that may change, if the state has changes
  batch::WindowSchedule schedule_;
  std::vector<BatchChange> changes_;  ///< that `schedule_` has
  std::int64_t total_ = 0;
  RunRates rates_;
};

}  // namespace accrue::train
