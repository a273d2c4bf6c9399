#pragma once

#include <csignal>

namespace accrue {

/// Handlers of signals run on a stack of their own, where their thread has one. Matrix products
/// need that: kernels of oneDNN's let the stack pointer run through their workspace on the heap,
/// and what the system writes below it as a signal arrives would overwrite whatever lies there.

/// Gives the calling thread such a stack, for as long as it lives, unless it has one.
void give_signals_a_stack();

/// Has `signal` call `handler` from now on, on such a stack in this thread. `flags` as sigaction()
/// has them.
void handle_signal(int signal, void (*handler)(int), int flags = 0);

}  // namespace accrue
