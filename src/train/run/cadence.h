#pragma once

#include <cstdint>
#include <optional>

#include "accrue/core/clock.h"
#include "accrue/core/units.h"

namespace accrue::train {

/// "Every so often", by steps or by the clock.
class Cadence {
 public:
  /// `what` is the config key, for errors.
  Cadence(const Duration& every, const Horizon& horizon, const char* what) {
    if (every.unit == Duration::Unit::seconds) {
      seconds_ = every.value;
    } else {
      steps_ = std::max<std::int64_t>(1, to_steps(every, horizon, what));
    }
  }

  /// Whether it is time after optimizer step `step` (1-based).
  bool due(std::int64_t step) const { return due(step, step - 1); }
  /// Whether it came to be time since it was asked last, after step `asked`.
  bool due(std::int64_t step, std::int64_t asked) const {
    return seconds_ ? since_.seconds() >= *seconds_ : step / *steps_ > asked / *steps_;
  }
  void done() { since_.restart(); }

 private:
  std::optional<double> seconds_;
  std::optional<std::int64_t> steps_;
  Stopwatch since_;
};

}  // namespace accrue::train
