#include "signals.h"

namespace accrue::train {
namespace {

// A signal handler can reach nothing but a static.
volatile std::sig_atomic_t signal_arrived = 0;

void note_signal(int) { signal_arrived = 1; }

}  // namespace

SignalWatch::SignalWatch() {
  signal_arrived = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  // SA_RESETHAND: a second signal finds the default action, so an impatient user gets out.
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, &action, &previous_terminate_);
}

SignalWatch::~SignalWatch() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

bool SignalWatch::interrupted() const { return signal_arrived != 0; }

}  // namespace accrue::train
