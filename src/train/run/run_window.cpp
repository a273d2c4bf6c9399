#include "train/run/run_window.h"

#include <ATen/record_function.h>

#include <optional>
#include <string>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/cause.h"
#include "memory/out_of_memory.h"

namespace accrue::train {
namespace {

void tell_story(const WindowFlow& flow) {
  if (const auto story = flow.retries.take_retry_report())
    flow.log.event_of_this_rank("out_of_memory", *story);
}

void drop(const WindowFlow& flow) {
  flow.window.discard();
  flow.runner.undo();
}

/// The ranks' sums have been handed over: a rank that runs out of memory here cannot start the
/// window again by itself, as its finished part is counted on another rank.
Filled keep_with_others(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  try {
    return flow.runner.closed(request, run);
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    throw runtime_error("keep window " + std::to_string(request.index) + " that ranks share",
                        "memory for what all of them have done of it", cause_of(error),
                        "a larger memory.budget, or longer times between checkpoints");
  }
}

Filled close(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  RECORD_USER_SCOPE("close window");
  const Stopwatch watch;
  tell_story(flow);  // before each rank is asked for its figures
  flow.parallelism.close(flow.window, run);
  run.closing_seconds = watch.seconds();
  return flow.window.is_unfinished() ? keep_with_others(flow, request, run)
                                     : flow.runner.closed(request, run);
}

void open_window(const WindowFlow& flow, const WindowRequest& request) {
  const Runner::Opening opening = flow.runner.prepare(request);
  if (flow.window.is_open()) return;  // it goes on with the sums of all ranks
  if (request.started) {
    flow.window.load(state_of(*request.started));
  } else {
    flow.window.open(request.index, opening.loss_scale, opening.total_weight);
  }
}

Filled fill_and_close(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  open_window(flow, request);
  if (flow.kept != nullptr) flow.kept->reset();  // the finished part is in the window now
  try {
    Filled filled = flow.runner.fill(request, run);
    const bool is_to_be_closed = filled == Filled::whole;
    if (is_to_be_closed) filled = close(flow, request, run);
    if (!is_to_be_closed || filled == Filled::interrupted) drop(flow);
    return filled;
  } catch (const distributed::RanksGone&) {
    if (flow.kept != nullptr) *flow.kept = flow.runner.completed_part(request, run);
    drop(flow);
    throw;
  } catch (...) {
    drop(flow);
    throw;
  }
}

/// The fields of `run` that belong to the whole window, if ranks closed it early and continue.
WindowRun begun_by(WindowRun run) {
  return {.micro_batch_peak_bytes = run.micro_batch_peak_bytes,
          .micro_batch_seconds = std::move(run.micro_batch_seconds)};
}

/// Fills the window until no runner asks to fill it again.
WindowRun attempt(const WindowFlow& flow, WindowRequest& request) {
  request.fills = 0;
  flow.window.discard();  // a window that could not be prepared to continue is still open
  for (WindowRun run;;) {
    const Filled filled = fill_and_close(flow, request, run);
    if (filled == Filled::goes_on) {
      run = begun_by(std::move(run));
      continue;
    }
    run.interrupted = filled == Filled::interrupted;
    run.retries += request.fills;
    if (filled != Filled::again) return run;
    ++request.fills;
    request.started.reset();
    run = {};
  }
}

/// Whether the window is to be started again after `error`, and in which micro-batches.
bool begins_anew(const WindowFlow& flow, WindowRequest& request, const std::exception& error) {
  std::vector<batch::Range>& micro_batches = request.micro_batches;
  const bool may_retry = flow.retries.enabled() && !micro_batches.empty() && !flow.window.is_torn();
  if (!may_retry || !memory::is_out_of_memory(error)) return false;
  request.started.reset();
  const auto decision =
      flow.retries.window_failed(request.index, micro_batches.front().size(), error);
  if (decision.action == memory::Recovery::Action::split)
    micro_batches = batch::split_again(micro_batches, decision.micro_batch);
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
