#include "cli/stop_signals.h"

#include <unistd.h>

#include <csignal>

namespace accrue::cli {
namespace {

void leave(int) { ::_exit(interrupted_status); }

}  // namespace

void leave_on_stop_signals() {
  struct sigaction action {};
  action.sa_handler = leave;
  sigemptyset(&action.sa_mask);
  struct sigaction hang_up {};
  ::sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

void ignore_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
}

}  // namespace accrue::cli
