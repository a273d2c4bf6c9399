#pragma once

#include "accrue/core/clock.h"

namespace accrue {

/// Adds the seconds of its lifetime to a total, which may be atomic.
template <class Total>
class TimedScope {
 public:
  explicit TimedScope(Total& seconds) : seconds_(seconds) {}
  ~TimedScope() { seconds_ += watch_.seconds(); }
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;

 private:
  Total& seconds_;
  Stopwatch watch_;
};

}  // namespace accrue
