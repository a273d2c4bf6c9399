#pragma once

#include "accrue/memory/budget.h"
#include "core/stop_signals.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// What comes to a run from outside while it trains: a budget that changes, a signal to stop.
class RunControl {
 public:
  RunControl() = default;  ///< nothing ever comes
  /// All arguments are kept by reference. `is_alone` says that no other rank has to stop at the
  /// same place.
  RunControl(memory::BudgetWatch& budget, const StopSignalWatch& signals, RunLog& log,
             bool is_alone)
      : budget_(&budget), signals_(&signals), log_(&log), is_alone_(is_alone) {}

  /// Sets a memory budget that changed, and tells why. To be asked between micro-batches.
  void follow_budget();
  /// Whether a budget that holds was raised since this was asked last.
  bool take_raised_budget();

  /// Whether a signal asked the run to stop.
  bool asked_to_stop() const { return signals_ != nullptr && signals_->interrupted(); }
  /// Whether the run may stop between two micro-batches: several ranks stop together, after a step.
  bool stops_here() const { return is_alone_ && asked_to_stop(); }

 private:
  memory::BudgetWatch* budget_ = nullptr;
  const StopSignalWatch* signals_ = nullptr;
  RunLog* log_ = nullptr;
  bool is_alone_ = true;
  bool budget_was_raised_ = false;
};

}  // namespace accrue::train
