#pragma once

#include <csignal>

namespace accrue::train {

/// While it lives, SIGINT and SIGTERM are noted instead of ending the process. The same signal
/// again ends it at once. The note is process-wide, since signals are; one object at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  bool interrupted() const;

 private:
  struct sigaction previous_interrupt_ {};
  struct sigaction previous_terminate_ {};
};

}  // namespace accrue::train
