#pragma once

#include <exception>
#include <variant>

#include "train/window/runner.h"

namespace accrue::train {

/// An exception ended an attempt to fill and close a window. The window was discarded.
struct FailedAttempt {
  std::exception_ptr error;
  bool is_out_of_memory = false;
  /// Whether gradients of the window are in the optimizer already (accum::Window::is_torn).
  bool is_torn = false;
};

/// How an attempt to fill and close a window ended: as the runner reports (Filled::whole: the
/// window is closed, and its result is final), or by an exception.
using WindowOutcome = std::variant<Filled, FailedAttempt>;

/// The reaction of run_window() to an attempt.
enum class NextAttempt {
  none,        ///< returns the result
  fill_rest,   ///< keeps the sums, and fills the window with the rest of the request
  fill_again,  ///< fills a new window with the changed request
  restart,     ///< starts the window again with the memory that the retries decide on
  fail,        ///< throws the error of the attempt
};

/// Decides from the outcome alone. `may_restart`: whether the window has micro-batches and its run
/// retries after it ran out of memory.
NextAttempt next_attempt(const WindowOutcome& outcome, bool may_restart);

}  // namespace accrue::train
