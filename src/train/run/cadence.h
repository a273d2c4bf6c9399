#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/units.h"

namespace accrue::train {

/// "Every so often", by steps, by how far a run has come, or by the clock.
class Cadence {
 public:
  /// How far a run is after an optimizer step, in a cadence's own unit.
  using Place = std::function<double(std::int64_t step)>;

  /// Of steps that are all alike: every so many of them. `what` is the config key, for errors.
  Cadence(const Duration& every, const Horizon& horizon, const char* what) {
    if (every.unit == Duration::Unit::seconds) {
      seconds_ = every.value;
    } else {
      every_ = static_cast<double>(std::max<std::int64_t>(1, to_steps(every, horizon, what)));
    }
  }
  /// Of steps that differ in size: after each step that comes to the next multiple of `every`,
  /// which is no time.
  Cadence(const Duration& every, Place place) : place_(std::move(place)), every_(every.value) {}

  /// Whether it is time after optimizer step `step` (1-based).
  bool due(std::int64_t step) const { return due(step, step - 1); }
  /// Whether it came to be time since it was asked last, after step `asked`.
  bool due(std::int64_t step, std::int64_t asked) const {
    return seconds_ ? since_.seconds() >= *seconds_ : times_until(step) > times_until(asked);
  }
  /// Whether it is time by the clock within a step that has taken `seconds` so far, as many as lie
  /// between two times: a shorter step is waited for.
  bool due_within_step(double seconds) const {
    return seconds_ && seconds >= *seconds_ && since_.seconds() >= *seconds_;
  }
  void done() { since_.restart(); }
  /// The clock since it was done.
  const Stopwatch& since() const { return since_; }
  void count_from(const Stopwatch& since) { since_ = since; }

 private:
  double times_until(std::int64_t step) const {
    return std::floor((place_ ? place_(step) : static_cast<double>(step)) / every_);
  }

  std::optional<double> seconds_;
  Place place_;
  double every_ = 1;
  Stopwatch since_;
};

}  // namespace accrue::train
