#include "cli/stop_signals.h"

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
  if (hang_up.sa_handler != SIG_IGN) handle_signal(SIGHUP, leave);
  for (const int signal : {SIGTERM, SIGINT}) handle_signal(signal, leave);
}

void ignore_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
}

}  // namespace accrue::cli
