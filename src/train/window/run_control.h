#pragma once

#include <optional>

#include "accrue/memory/budget.h"
#include "core/notice_signal.h"
#include "core/stop_signals.h"
#include "train/limits/limit_watch.h"
#include "train/limits/rest_account.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// Events from outside that affect a run while it trains: a budget that changes, a signal to stop,
/// limits of the machine.
class RunControl {
 public:
  RunControl() = default;  ///< nothing ever happens
  /// All arguments are kept by reference. `is_alone` states that no other rank has to stop at the
  /// same point.
  RunControl(memory::BudgetWatch& budget, const StopSignalWatch& signals, RunLog& log,
             bool is_alone)
      : budget_(&budget), signals_(&signals), log_(&log), is_alone_(is_alone) {}
  /// From here on limits count as well. `notice` is given when one requests a checkpoint. Others
  /// wait for this process for `patience` seconds at most; none: no other process waits. Both
  /// objects are kept by reference.
  void heed(LimitWatch& limits, const NoticeWatch& notice, std::optional<double> patience);

  /// Applies changes of the memory budget and of limits, and reports the reasons. Call it between
  /// micro-batches.
  void follow();
  /// Whether a budget in force was raised since the last call.
  bool take_raised_budget();

  /// Whether a signal or a limit asked the run to stop.
  bool asked_to_stop() const;
  /// Whether the run may stop between two micro-batches: several ranks stop together, after a step.
  bool stops_here() const { return is_alone_ && asked_to_stop(); }

  /// The share of the time that this process may work (LimitWatch::allowed_speed).
  double allowed_speed() const { return limits_ == nullptr ? 1 : limits_->allowed_speed(); }
  /// Records that micro-batches took so many seconds, after which a process that is to be slow
  /// rests.
  void worked(double seconds);
  /// Waits for a moment if limits make this process rest, or pause while no other waits for it.
  /// Returns whether it did: call follow() then, and this again.
  bool waits();
  /// Follows until limits let this process work, or it is asked to stop.
  void wait_out();
  /// Others do not wait for this process at this moment.
  void met_others() { rest_.settle(); }
  /// Seconds spent in waits() in total.
  double waited_seconds() const { return waited_seconds_; }

 private:
  void follow_budget();
  void follow_limits();

  memory::BudgetWatch* budget_ = nullptr;
  const StopSignalWatch* signals_ = nullptr;
  RunLog* log_ = nullptr;
  LimitWatch* limits_ = nullptr;
  const NoticeWatch* notice_ = nullptr;
  bool is_alone_ = true;
  bool may_pause_ = false;
  bool budget_was_raised_ = false;
  RestAccount rest_;
  double waited_seconds_ = 0;
};

}  // namespace accrue::train
