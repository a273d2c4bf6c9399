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

/// A recurring time, in steps, in the progress of a run, or by the clock.
class Cadence {
 public:
  /// The progress of a run after an optimizer step, in a cadence's own unit.
  using Place = std::function<double(std::int64_t step)>;

  /// For steps of equal size: every so many of them. `what` is the config key, for errors.
  Cadence(const Duration& every, const Horizon& horizon, const char* what) {
    if (every.unit == Duration::Unit::seconds) {
      seconds_ = every.value;
    } else {
      every_ = static_cast<double>(std::max<std::int64_t>(1, to_steps(every, horizon, what)));
    }
  }
  /// For steps that differ in size: due after each step that reaches the next multiple of `every`,
  /// which is not a time.
  Cadence(const Duration& every, Place place) : place_(std::move(place)), every_(every.value) {}

  /// Whether it is due after optimizer step `step` (1-based).
  bool due(std::int64_t step) const { return due(step, step - 1); }
  /// Whether it has become due since the last query, which was after step `asked`.
  bool due(std::int64_t step, std::int64_t asked) const {
    return seconds_ ? since_.seconds() >= *seconds_ : times_until(step) > times_until(asked);
  }
  /// Whether it is due by the clock within a step that has taken `seconds` so far, at least one
  /// whole interval: the end of a shorter step is waited for.
  bool due_within_step(double seconds) const {
    return seconds_ && seconds >= *seconds_ && since_.seconds() >= *seconds_;
  }
  void done() { since_.restart(); }
  /// The time since it was last done.
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
