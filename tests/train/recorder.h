#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/observer.h"

namespace accrue::train::testing {

/// Stores everything that a run reports to its observers.
class Recorder : public Observer {
 public:
  void on_start(const RunStart& start) override { starts.push_back(start); }
  void on_step(const StepReport& report) override { steps.push_back(report); }
  void on_evaluation(const Evaluation& evaluation) override { evaluations.push_back(evaluation); }
  void on_event(const Event& event) override { events.push_back(event); }
  bool has_event(const std::string& name) const {
    return std::ranges::any_of(events, [&](const Event& e) { return e.name == name; });
  }
  std::vector<RunStart> starts;
  std::vector<StepReport> steps;
  std::vector<Evaluation> evaluations;
  std::vector<Event> events;
};

/// Does something after a step, as another process would.
class AfterStep : public Observer {
 public:
  AfterStep(std::int64_t step, std::function<void()> action)
      : step_(step), action_(std::move(action)) {}
  void on_step(const StepReport& report) override {
    if (report.step == step_) action_();
  }

 private:
  std::int64_t step_;
  std::function<void()> action_;
};

/// Raises a signal after a given number of micro-batches, as a scheduler might in the middle of a
/// window.
class SignalAfter : public Observer {
 public:
  SignalAfter(int micro_batches, int signal) : left_(micro_batches), signal_(signal) {}
  void on_micro_batch(std::int64_t, std::int64_t) override {
    if (--left_ == 0) std::raise(signal_);
  }

 private:
  int left_;
  int signal_;
};

}  // namespace accrue::train::testing
