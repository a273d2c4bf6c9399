#include "train/run/run_window.h"

#include <ATen/record_function.h>

#include <optional>

#include "accrue/core/clock.h"
#include "memory/out_of_memory.h"

namespace accrue::train {
namespace {

void tell_story(const WindowFlow& flow) {
  if (const auto story = flow.retries.take_story())
    flow.log.event_of_this_rank("out_of_memory", *story);
}

void drop(const WindowFlow& flow) {
  flow.window.discard();
  flow.runner.undo();
}

Filled close(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  RECORD_USER_SCOPE("close window");
  const Stopwatch watch;
  tell_story(flow);  // this precedes asking each rank for what it has to tell
  flow.parallelism.close(flow.window, run);
  run.closing_seconds = watch.seconds();
  return flow.runner.closed(request, run);
}

void open_window(const WindowFlow& flow, const WindowRequest& request) {
  const Runner::Opening opening = flow.runner.prepare(request);
  if (request.started) {
    flow.window.load(state_of(*request.started));
  } else {
    flow.window.open(request.index, opening.loss_scale, opening.total_weight);
  }
}

Filled fill_and_close(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  open_window(flow, request);
  if (flow.kept != nullptr) flow.kept->reset();  // what is done is in the window now
  try {
    const Filled filled = flow.runner.fill(request, run);
    if (filled == Filled::whole) return close(flow, request, run);
    drop(flow);
    return filled;
  } catch (const distributed::RanksGone&) {
    if (flow.kept != nullptr) *flow.kept = flow.runner.what_is_done(request, run);
    drop(flow);
    throw;
  } catch (...) {
    drop(flow);
    throw;
  }
}

/// Fills the window until no runner asks to fill it again.
WindowRun attempt(const WindowFlow& flow, WindowRequest& request) {
  request.fills = 0;
  while (true) {
    WindowRun run;
    const Filled filled = fill_and_close(flow, request, run);
    run.interrupted = filled == Filled::interrupted;
    run.retries += request.fills;
    if (filled != Filled::again) return run;
    ++request.fills;
    request.started.reset();
  }
}

/// Whether the window is to begin anew after `error`, and in which micro-batches.
bool begins_anew(const WindowFlow& flow, WindowRequest& request, const std::exception& error) {
  std::vector<batch::Range>& micro_batches = request.micro_batches;
  const bool may_retry = flow.retries.enabled() && !micro_batches.empty() && !flow.window.is_torn();
  if (!may_retry || !memory::is_out_of_memory(error)) return false;
  request.started.reset();
  const auto decision =
      flow.retries.window_failed(request.index, micro_batches.front().size(), error);
  if (decision.action == memory::Recovery::Action::split)
    micro_batches = batch::split_anew(micro_batches, decision.micro_batch);
  return true;
}

}  // namespace

WindowRun run_window(const WindowFlow& flow, WindowRequest request) {
  if (flow.kept != nullptr) *flow.kept = request.started;
  flow.retries.start();
  while (true) {
    try {
      WindowRun run = attempt(flow, request);
      tell_story(flow);
      run.out_of_memory = flow.retries.count();
      run.retries += flow.retries.count();
      return run;
    } catch (const std::exception& error) {
      if (!begins_anew(flow, request, error)) throw;
    }
  }
}

}  // namespace accrue::train
