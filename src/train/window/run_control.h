#pragma once

#include <optional>

#include "accrue/memory/budget.h"
#include "core/notice_signal.h"
#include "core/stop_signals.h"
#include "train/limits/limit_watch.h"
#include "train/limits/rest_account.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// What comes to a run from outside while it trains: a budget that changes, a signal to stop,
/// limits of the machine.
class RunControl {
 public:
  RunControl() = default;  ///< nothing ever comes
  /// All arguments are kept by reference. `is_alone` says that no other rank has to stop at the
  /// same place.
  RunControl(memory::BudgetWatch& budget, const StopSignalWatch& signals, RunLog& log,
             bool is_alone)
      : budget_(&budget), signals_(&signals), log_(&log), is_alone_(is_alone) {}
  /// From here on limits count, too. `notice` is given where one asks for a checkpoint. Others wait
  /// for this process for `patience` seconds at most; none: nobody does. Both objects are kept by
  /// reference.
  void heed(LimitWatch& limits, const NoticeWatch& notice, std::optional<double> patience);

  /// Takes in a memory budget that changed, and limits, and tells why. To be asked between
  /// micro-batches.
  void follow();
  /// Whether a budget that holds was raised since this was asked last.
  bool take_raised_budget();

  /// Whether a signal or a limit asked the run to stop.
  bool asked_to_stop() const;
  /// Whether the run may stop between two micro-batches: several ranks stop together, after a step.
  bool stops_here() const { return is_alone_ && asked_to_stop(); }

  /// The part of the time that this process may work (LimitWatch::allowed_speed).
  double allowed_speed() const { return limits_ == nullptr ? 1 : limits_->allowed_speed(); }
  /// Takes in that micro-batches took so many seconds, after which a process that is to be slow
  /// rests.
  void worked(double seconds);
  /// Waits for a moment where limits have this process rest, or pause and nobody waits for it.
  /// Returns whether it did: follow() is to be called then, and this be asked again.
  bool waits();
  /// Follows until limits let this process work, or something asks it to stop.
  void wait_out();
  /// Others do not wait for this process at this moment.
  void met_others() { rest_.settle(); }
  /// Seconds that waits() took in all.
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
