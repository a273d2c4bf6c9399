#include <csignal>

#include "before_libraries.h"
#include "cli/stop_signals.h"

namespace accrue::cli {

void hold_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kHeldSignals) sigaddset(&held, signal);
  ::sigprocmask(SIG_BLOCK, &held, nullptr);
}

}  // namespace accrue::cli
