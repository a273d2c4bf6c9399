#pragma once

#include <cstdint>
#include <optional>

#include "accrue/core/units.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/config.h"
#include "batch/changing_windows.h"
#include "batch/schedule.h"
#include "train/workload/batch_changes.h"

namespace accrue::train {

/// The learning rate of each window of a run. If the batch stays as it is, the schedule counts
/// optimizer steps; if it changes, the contents of the windows (tokens, or samples without any), so
/// that the rate does not jump if the batch does. A run of a stated number of steps whose batch
/// is decided on the way, or changed by hand, counts steps: their contents are not known before.
class RunRates {
 public:
  /// `windows` is the run's length. A warm-up in steps is that of `as_begun`, the schedule before
  /// any decision.
  RunRates(const Config& config, const Horizon& horizon, const batch::WindowSchedule& schedule,
           const batch::WindowSchedule& as_begun, const SampleFacts& samples, std::int64_t windows);

  /// Of window `window`, before which `step` optimizer steps were taken.
  double at(std::int64_t window, std::int64_t step) const;
  /// The same with the part above the schedule's floor times `factor`: the floor is absolute.
  double scaled_at(std::int64_t window, std::int64_t step, double factor) const;
  /// The values that groups with their own rate need in addition; none if their factor is enough:
  /// in the warm-up, and for a rate that does not fall or falls to 0.
  std::optional<optim::RateFall> fall_at(std::int64_t window, std::int64_t step,
                                         double factor) const;

 private:
  void count_window_contents(std::int64_t windows);
  static std::int64_t held_before(const batch::ChangingWindows& windows, std::int64_t window);
  std::int64_t held_before(std::int64_t window) const {
    return held_before(*schedule_.changing, window);
  }
  std::int64_t held_within(const Duration& duration) const;
  double of_seesaw(std::int64_t window) const;
  bool has_seesaw_begun(std::int64_t window) const;

  Config config_;
  batch::WindowSchedule schedule_, as_begun_;
  SampleFacts samples_;
  optim::LearningRate rate_;
  bool counts_steps_ = true;
};

}  // namespace accrue::train
