#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "accrue/core/observer.h"

namespace accrue::train::testing {

/// Keeps all that a run tells its observers.
class Recorder : public Observer {
 public:
  void on_step(const StepReport& report) override { steps.push_back(report); }
  void on_evaluation(const Evaluation& evaluation) override { evaluations.push_back(evaluation); }
  void on_event(const Event& event) override { events.push_back(event); }
  bool has_event(const std::string& name) const {
    return std::ranges::any_of(events, [&](const Event& e) { return e.name == name; });
  }
  std::vector<StepReport> steps;
  std::vector<Evaluation> evaluations;
  std::vector<Event> events;
};

}  // namespace accrue::train::testing
