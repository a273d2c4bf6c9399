#include <csignal>

#include "before_libraries.h"
#include "cli/process/stop_signals.h"

namespace accrue::cli {

void hold_signals() {
  const sigset_t held = held_signals();
  ::sigprocmask(SIG_BLOCK, &held, nullptr);
}

}  // namespace accrue::cli
