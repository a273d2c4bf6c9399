#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/core/ledger.h"
#include "accrue/core/observer.h"
#include "train/checkpoint/train_state.h"

namespace accrue::train {

/// Reports what a run does to observers. The first of several ranks reports; events on another rank
/// are noted there, and are sent to the first with the window's close (gather_events).
class RunLog {
 public:
  using Observers = std::vector<std::shared_ptr<Observer>>;

  RunLog() = default;  ///< without observers
  /// Observers and state are kept by reference: events carry the step that `state` has reached.
  RunLog(const Observers& observers, const TrainState& state, bool is_first_rank)
      : observers_(&observers), state_(&state), is_first_rank_(is_first_rank) {}

  void start(const RunStart& start) const;
  void micro_batch(std::int64_t done, std::int64_t total) const;
  void step(const StepReport& report);
  void evaluation(const Evaluation& evaluation) const;
  void rollback() const;
  void histograms(const StepHistograms& histograms) const;
  void end(bool interrupted) const;
  void failed() const;

  /// Reports an event of the current step that all ranks know.
  void event(const std::string& name, const std::string& reason) const;
  /// Reports an event of the step that was done last.
  void event_of_last_step(const std::string& name, const std::string& reason) const;
  /// Reports, or notes, an event of the current step that only this rank knows.
  void event_of_this_rank(const std::string& name, const std::string& reason);
  /// Reports, or notes, an event of any step that only this rank knows.
  void event_of_this_rank(Event event);
  /// Reports that a micro-batch was quarantined whose draws took these samples of the data.
  void quarantine(const MicroRef& micro, const std::string& reason,
                  std::span<const std::int64_t> samples);

  /// The last step, on a rank that does not report: the first rank may be lost before it does.
  const std::optional<StepReport>& unreported_step() const { return unreported_step_; }
  /// Events that are still to be sent to the first rank.
  const std::vector<Event>& noted() const { return noted_; }
  std::vector<Event> take_noted();
  /// Reports events that ranks had noted.
  void tell(std::span<const Event> events) const;

 private:
  std::int64_t steps_done() const { return state_ == nullptr ? 0 : state_->step; }
  void each(const std::function<void(Observer&)>& notify) const;

  const Observers* observers_ = nullptr;
  const TrainState* state_ = nullptr;
  bool is_first_rank_ = true;
  std::optional<StepReport> unreported_step_;
  std::vector<Event> noted_;
};

}  // namespace accrue::train
