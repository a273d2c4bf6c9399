#include "train/run/run_window.h"

#include <ATen/record_function.h>

#include <optional>
#include <string>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/cause.h"
#include "memory/out_of_memory.h"
#include "train/run/window_outcome.h"

namespace accrue::train {
namespace {

void report_retries(const WindowFlow& flow) {
  if (const auto report = flow.retries.take_retry_report())
    flow.log.event_of_this_rank("out_of_memory", *report);
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
  report_retries(flow);  // before each rank is asked for its figures
  flow.parallelism.close(flow.window, run);
  run.closing_seconds = watch.seconds();
  return flow.window.is_unfinished() ? keep_with_others(flow, request, run)
                                     : flow.runner.closed(request, run);
}

void open_window(const WindowFlow& flow, const WindowRequest& request) {
  const Runner::Opening opening = flow.runner.prepare(request);
  if (flow.window.is_open()) return;  // it continues with the sums of all ranks
  if (request.started) {
    flow.window.load(state_of(*request.started));
  } else {
    flow.window.open(request.index, opening.loss_scale, opening.total_weight);
  }
}

/// Discards the window, and reverts what filling it did outside it.
void drop(const WindowFlow& flow) {
  flow.window.discard();
  flow.runner.undo();
}

Filled fill_and_close(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  const Filled filled = flow.runner.fill(request, run);
  if (filled != Filled::whole) {
    drop(flow);
    return filled;
  }
  const Filled closed = close(flow, request, run);
  if (closed == Filled::interrupted) drop(flow);
  return closed;
}

/// Opens the window, has it filled, and closes it, once.
WindowOutcome attempt(const WindowFlow& flow, WindowRequest& request, WindowRun& run) {
  bool is_filling = false;
  // Until the filling begins, the runner's own state is still that of an earlier window.
  const auto clean_up = [&] { is_filling ? drop(flow) : flow.window.discard(); };
  const auto failed = [&](bool is_out_of_memory) {
    clean_up();
    return FailedAttempt{std::current_exception(), is_out_of_memory, flow.window.is_torn()};
  };
  try {
    open_window(flow, request);
    if (flow.kept != nullptr) flow.kept->reset();  // the finished part is in the window now
    is_filling = true;
    return fill_and_close(flow, request, run);
  } catch (const distributed::RanksGone&) {
    if (is_filling && flow.kept != nullptr) *flow.kept = flow.runner.completed_part(request, run);
    return failed(false);
  } catch (const std::exception& error) {
    return failed(memory::is_out_of_memory(error));
  } catch (...) {
    return failed(false);
  }
}

/// The fields of `run` that belong to the whole window, if ranks closed it early and continue.
WindowRun begun_by(WindowRun run) {
  return {.micro_batch_peak_bytes = run.micro_batch_peak_bytes,
          .micro_batch_seconds = std::move(run.micro_batch_seconds)};
}

/// Prepares the window to start again after it ran out of memory, in smaller micro-batches if the
/// retries decide so; throws their error if nothing is left to try.
void restart(const WindowFlow& flow, WindowRequest& request, const std::exception_ptr& cause) {
  std::vector<batch::Range>& micro_batches = request.micro_batches;
  request.started.reset();
  request.fills = 0;
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    const auto decision =
        flow.retries.window_failed(request.index, micro_batches.front().size(), error);
    if (decision.action == memory::Recovery::Action::split)
      micro_batches = batch::split_again(micro_batches, decision.micro_batch);
  }
}

}  // namespace

WindowRun run_window(const WindowFlow& flow, WindowRequest request) {
  if (flow.kept != nullptr) *flow.kept = request.started;
  flow.retries.start();
  flow.window.discard();
  request.fills = 0;
  for (WindowRun run;;) {
    const WindowOutcome outcome = attempt(flow, request, run);
    switch (next_attempt(outcome, flow.retries.enabled() && !request.micro_batches.empty())) {
      case NextAttempt::none:
        run.interrupted = std::get<Filled>(outcome) == Filled::interrupted;
        report_retries(flow);
        run.out_of_memory = flow.retries.count();
        run.retries += request.fills + flow.retries.count();
        return run;
      case NextAttempt::fill_rest:
        run = begun_by(std::move(run));
        break;
      case NextAttempt::fill_again:
        ++request.fills;
        request.started.reset();
        run = {};
        break;
      case NextAttempt::restart:
        restart(flow, request, std::get<FailedAttempt>(outcome).error);
        run = {};
        break;
      case NextAttempt::fail:
        std::rethrow_exception(std::get<FailedAttempt>(outcome).error);
    }
  }
}

}  // namespace accrue::train
