#pragma once

#include <csignal>

#include "core/notice_signal.h"
#include "core/stop_signals.h"

namespace accrue::cli {

/// The exit status of a program that was interrupted.
inline constexpr int interrupted_status = 130;

/// The signals that the program blocks while its libraries are loaded
/// (apps/accrue/before_libraries.cpp): those that make requests of a run, which would end the
/// process before main could handle them. SIGUSR1 is the budget's.
inline sigset_t held_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kStopSignals) sigaddset(&held, signal);
  sigaddset(&held, SIGUSR1);
  sigaddset(&held, kNoticeSignal);
  return held;
}

/// From here on blocked signals arrive, those that came meanwhile at once.
void take_held_signals();

/// From here on SIGINT, SIGTERM, SIGHUP and SIGXCPU end the program at once with status 130,
/// wherever it is. A SIGHUP that was ignored (nohup) stays ignored. A run (train::Trainer) records
/// them instead while it lasts.
void leave_on_stop_signals();

/// From here on these signals have no effect: the program is ending, with its present status.
void ignore_stop_signals();

}  // namespace accrue::cli
