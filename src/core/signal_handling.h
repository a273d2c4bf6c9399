#pragma once

#include <csignal>

namespace accrue {

/// Signal handlers run on a separate stack, if their thread has one. Matrix products need that:
/// oneDNN's kernels let the stack pointer run through their workspace on the heap, and what the
/// system writes below it when a signal arrives would overwrite other data.

/// Gives the calling thread such a stack until the thread ends, unless it has one.
void install_signal_stack();

/// Makes `signal` call `handler`, on such a stack in this thread. `flags` are those of
/// sigaction().
void handle_signal(int signal, void (*handler)(int), int flags = 0);

}  // namespace accrue
