#pragma once

#include "accrue/accum/window.h"
#include "accrue/core/ledger.h"
#include "train/pass/forward_backward.h"
#include "train/pass/window_losses.h"

namespace accrue::train {

/// The result of a micro-batch and of its forward and backward pass.
struct MicroBatchRun {
  PassResult pass;
  /// Committed, quarantined for its loss or its gradient, or lost with the window.
  MicroStatus status = MicroStatus::pending;
};

/// Runs one micro-batch of an open window as a transaction: begin, forward, backward, and commit,
/// or abort if the loss is not finite. The runner, the planner's trials, `doctor` and `verify` all
/// run micro-batches by it. With `losses` the weights have to be those that it counted before the
/// window: otherwise this throws as WindowLosses::check does, before anything is committed.
///
/// After an exception the micro-batch stays begun (Window::in_micro_batch): a caller that tries it
/// again aborts it first, other callers discard the window.
MicroBatchRun run_micro_batch(accum::Window& window, models::Trainable& model, const MicroRef& ref,
                              const batch::MicroBatch& micro, const ForwardContext& context,
                              const PassOptions& options = {},
                              const WindowLosses* losses = nullptr);

}  // namespace accrue::train
