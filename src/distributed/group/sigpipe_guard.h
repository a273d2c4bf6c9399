#pragma once

#include <csignal>

namespace accrue::distributed {

/// Threads created while it exists get EPIPE from a socket that a rank closed, not a signal that
/// ends the process: libuv, on which the store is hosted, writes without MSG_NOSIGNAL.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~SigpipeGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace accrue::distributed
