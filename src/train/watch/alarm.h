#pragma once

namespace accrue::train {

/// Rings once when a level is reached, and not again before the level was below another one: a
/// level that hovers about a limit is reported once.
class Alarm {
 public:
  /// It rings at `on` and above, and can ring again after a level below `off`, which is less.
  Alarm(double on, double off) : on_(on), off_(off) {}

  /// Whether it rings at this level.
  bool rings(double level) {
    if (level < off_) is_on_ = false;
    if (is_on_ || level < on_) return false;
    return is_on_ = true;
  }

 private:
  double on_, off_;
  bool is_on_ = false;
};

}  // namespace accrue::train
