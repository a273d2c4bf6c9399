#pragma once

#include <array>
#include <csignal>

namespace accrue {

/// The signals that ask a run to stop. SIGXCPU is the soft limit of processor time.
inline constexpr std::array<int, 4> kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGXCPU};

/// While it lives, the stop signals are noted instead of doing what they did before. Launchers and
/// terminals send one more than once, so more of them change nothing for two seconds; one that
/// comes later is somebody who will not wait, and does what it did before this object; the system
/// repeats SIGXCPU each second, which means nothing. A SIGHUP that was ignored (nohup) stays
/// ignored. The note is process-wide, since signals are; one object
/// at a time.
class StopSignalWatch {
 public:
  StopSignalWatch();
  ~StopSignalWatch();
  StopSignalWatch(const StopSignalWatch&) = delete;
  StopSignalWatch& operator=(const StopSignalWatch&) = delete;

  bool interrupted() const;
};

}  // namespace accrue
