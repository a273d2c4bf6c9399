#pragma once

#include <memory>
#include <utility>

#include "accrue/core/observer.h"
#include "train/checkpoint/run_claim.h"

namespace accrue::train {

/// Passes reports to an observer that writes into a run directory while this process holds that
/// directory. A process that was left out has lost it, and its reports are dropped.
class ClaimedObserver final : public Observer {
 public:
  /// `claim` is kept by reference.
  ClaimedObserver(const RunClaim& claim, std::unique_ptr<Observer> observer)
      : claim_(claim), observer_(std::move(observer)) {}

  void on_start(const RunStart& start) override { tell(&Observer::on_start, start); }
  void on_micro_batch(std::int64_t done, std::int64_t total) override {
    tell(&Observer::on_micro_batch, done, total);
  }
  void on_step(const StepReport& report) override { tell(&Observer::on_step, report); }
  void on_evaluation(const Evaluation& evaluation) override {
    tell(&Observer::on_evaluation, evaluation);
  }
  void on_histograms(const StepHistograms& histograms) override {
    tell(&Observer::on_histograms, histograms);
  }
  void on_event(const Event& event) override { tell(&Observer::on_event, event); }
  void on_rollback(std::int64_t step) override { tell(&Observer::on_rollback, step); }
  void on_end(const RunEnd& end) override { tell(&Observer::on_end, end); }

 private:
  template <class Told, class... Values>
  void tell(Told told, const Values&... values) {
    if (claim_.is_held()) (*observer_.*told)(values...);
  }

  const RunClaim& claim_;
  std::unique_ptr<Observer> observer_;
};

}  // namespace accrue::train
