#pragma once

#include <array>
#include <csignal>

namespace accrue {

/// The signals that ask a run to stop. SIGXCPU is the soft limit of processor time.
inline constexpr std::array<int, 4> kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGXCPU};

/// During its lifetime, the stop signals are recorded instead of having their previous effect.
/// Launchers and terminals send one more than once, so more of them change nothing for two
/// seconds. A later one means that the user will not wait, and has its previous effect; the
/// system repeats SIGXCPU every second, which means nothing. A SIGHUP that was ignored (nohup)
/// stays ignored. The record is process-wide, like signals; only one object may exist at a
/// time.
class StopSignalWatch {
 public:
  StopSignalWatch();
  ~StopSignalWatch();
  StopSignalWatch(const StopSignalWatch&) = delete;
  StopSignalWatch& operator=(const StopSignalWatch&) = delete;

  bool interrupted() const;
};

}  // namespace accrue
