#pragma once

#include <array>
#include <csignal>

namespace accrue {

/// The signals that ask a run to stop.
inline constexpr std::array<int, 3> kStopSignals{SIGINT, SIGTERM, SIGHUP};

/// While it lives, the stop signals are noted instead of doing what they did before. Launchers and
/// terminals send one more than once, so more of them change nothing for two seconds; one that
/// comes later is somebody who will not wait, and does what it did before this object. A SIGHUP
/// that was ignored (nohup) stays ignored. The note is process-wide, since signals are; one object
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
