#pragma once

#include <algorithm>
#include <limits>

namespace accrue::train {

/// The rest that a process owes for its work while it is slowed down. Plain arithmetic, without a
/// clock.
class RestAccount {
 public:
  /// At most so many seconds are rested until settle(): as long as others wait for this process.
  void bound(double seconds) { most_ = seconds; }
  /// Others do not wait at this moment: the bound applies again from zero.
  void settle() { rested_ = 0; }

  /// Adds work of `seconds`, if a process may work `speed` of the time, above 0.
  void work(double seconds, double speed) {
    owed_ = std::min(owed_ + seconds * (1 / speed - 1), most_ - rested_);
  }
  void rest(double seconds) {
    owed_ = std::max(0.0, owed_ - seconds);
    rested_ += seconds;
  }
  /// Cancels the rest owed for work under a limit that is over now.
  void forgive() { owed_ = 0; }
  /// Seconds to rest now.
  double owed() const { return std::max(0.0, owed_); }

 private:
  double most_ = std::numeric_limits<double>::infinity();
  double owed_ = 0, rested_ = 0;
};

}  // namespace accrue::train
