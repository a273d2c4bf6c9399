#pragma once

#include <optional>

#include "memory/retries.h"
#include "train/ranks/parallelism.h"
#include "train/window/runner.h"

namespace accrue::train {

/// What run_window() works with; all of it outlives the call.
struct WindowFlow {
  accum::Window& window;
  Runner& runner;
  Parallelism& parallelism;
  memory::Retries& retries;
  RunLog& log;
  /// Gets what this rank had done of a window that ranks which are gone ended; null: nobody asks.
  std::optional<StartedWindow>* kept = nullptr;
};

/// Opens a window, has it filled and closes it, until it goes through, whichever runner fills it,
/// in training and elsewhere. A runner may ask to fill it again; if memory runs out the whole
/// window begins anew, with the same micro-batches and then with smaller ones, as `retries`
/// decides; so does one that was to go on in its middle. One that ranks closed early, to keep it in
/// its middle, goes on if the run does. A window that was interrupted is dropped,
/// and one that is torn (accum::Window::is_torn) cannot begin anew. After an exception the window
/// is closed and the model's buffers are as they were.
WindowRun run_window(const WindowFlow& flow, WindowRequest request);

}  // namespace accrue::train
