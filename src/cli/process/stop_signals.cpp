#include "cli/process/stop_signals.h"

#include <unistd.h>

#include <csignal>

#include "core/signal_handling.h"

namespace accrue::cli {
namespace {

void leave(int) { ::_exit(interrupted_status); }

}  // namespace

void leave_on_stop_signals() {
  struct sigaction hang_up {};
  ::sigaction(SIGHUP, nullptr, &hang_up);
  for (const int signal : kStopSignals)
    if (signal != SIGHUP || hang_up.sa_handler != SIG_IGN) handle_signal(signal, leave);
}

void ignore_stop_signals() {
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);
}

void take_held_signals() {
  const sigset_t held = held_signals();
  ::sigprocmask(SIG_UNBLOCK, &held, nullptr);
}

}  // namespace accrue::cli
