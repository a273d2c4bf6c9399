#pragma once

#include <optional>

#include "memory/retries.h"
#include "train/ranks/parallelism.h"
#include "train/window/runner.h"

namespace accrue::train {

/// The objects that run_window() uses; all of them outlive the call.
struct WindowFlow {
  accum::Window& window;
  Runner& runner;
  Parallelism& parallelism;
  memory::Retries& retries;
  RunLog& log;
  /// Receives what this rank had done of a window that ended because ranks were lost; may be null.
  std::optional<StartedWindow>* kept = nullptr;
};

/// Opens a window, has it filled and closes it, until it succeeds, whichever runner fills it, in
/// training and elsewhere. A runner may ask to fill it again. If memory runs out the whole window
/// starts again, with the same micro-batches and then with smaller ones, as `retries` decides; so
/// does one that was to continue from its middle. A window that ranks closed early, to save its
/// middle, continues if the run does. A window that was interrupted is dropped, and one that is
/// torn (accum::Window::is_torn) cannot start again. After an exception the window is closed and
/// the model's buffers are as they were.
WindowRun run_window(const WindowFlow& flow, WindowRequest request);

}  // namespace accrue::train
