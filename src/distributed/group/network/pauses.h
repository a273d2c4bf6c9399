#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace accrue::distributed {

/// The pauses of a process that polls the store for what others write: short ones at first, since
/// most of it is on its way, and longer ones for slow answers.
class Pauses {
 public:
  void pause() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, kLongest);
  }

 private:
  static constexpr std::chrono::milliseconds kLongest{20};
  std::chrono::milliseconds next_{1};
};

}  // namespace accrue::distributed
