#pragma once

#include <exception>
#include <variant>

namespace accrue::train {

/// How an attempt to fill and close a window ended. The alternatives exclude each other.
namespace outcome {
struct Whole {};        ///< the window is closed, and its result is final
struct Interrupted {};  ///< the run stops between two micro-batches; the window was discarded
struct FillAgain {};    ///< the runner changed the request, and wants it filled once more
struct ClosedEarly {};  ///< ranks closed the window to save its middle; the rest is to be filled
/// An exception ended the attempt. The window was discarded.
struct Failed {
  std::exception_ptr error;
  bool is_out_of_memory = false;
  /// Whether gradients of the window are in the optimizer already (accum::Window::is_torn).
  bool is_torn = false;
};
}  // namespace outcome

using WindowOutcome = std::variant<outcome::Whole, outcome::Interrupted, outcome::FillAgain,
                                   outcome::ClosedEarly, outcome::Failed>;

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
