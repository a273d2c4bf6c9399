// Windows that are saved in their middle, and continue from there: by one process, and by ranks
// together.
#include <utility>

#include "accrue/core/clock.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/noise_meter.h"

namespace accrue::train {
namespace {

bool is_settled(const LedgerEntry& entry) {
  return entry.status == MicroStatus::committed || entry.status == MicroStatus::quarantined;
}

std::vector<LedgerEntry> entries_of(const WindowMiddle& middle) {
  std::vector<LedgerEntry> entries;
  for (std::size_t i = 0; i < middle.done.size(); ++i) entries.push_back(middle.entry_of(i));
  return entries;
}

}  // namespace

/// Takes in the finished part of the window. Quarantines are reported once more: the reports of a
/// step that was not finished are gone.
void MicroBatchRunner::take_up(const WindowRequest& request, WindowRun& run) {
  const WindowMiddle& middle = request.started->middle;
  load_buffers(*request.started, context_.model);
  for (std::size_t i = 0; i < middle.done.size(); ++i) {
    if (middle.done[i].entry.status == MicroStatus::quarantined) {
      if (!request.was_told) report_quarantined(middle.entry_of(i));
      losses_.quarantine(static_cast<std::int64_t>(i));
    } else {
      losses_.note(static_cast<std::int64_t>(i),
                   losses_of(middle.done[i], context_.model.losses()));
    }
  }
  if (options_.noise != nullptr) options_.noise->take_up(middle.noise_sums);
  run.tokens = middle.tokens;
  run.unreadable = middle.unreadable;
  run.earlier_seconds = middle.seconds;
}

double MicroBatchRunner::seconds_so_far(const WindowRun& run) const {
  return run.earlier_seconds + filled_before_ + filling_.seconds() - keeping_seconds_ -
         waited_seconds();
}

bool MicroBatchRunner::is_to_be_kept(bool stops, const WindowRun& run) const {
  if (!options_.keeper.keep || options_.keeper.ranks != nullptr) return false;
  return stops || options_.keeper.is_due(seconds_so_far(run) + waited_seconds());
}

/// Saves the finished part of the window. The checkpoint's model is that of the last step, so
/// meanwhile the buffers are those with which the window began.
void MicroBatchRunner::keep(const WindowRequest& request, WindowRun& run) {
  const Stopwatch keeping;
  settle_losses(run);
  settle_buffers();
  if (context_.window.is_lost()) return;
  StartedWindow started = started_window(request, run);
  at_open_.restore();
  options_.keeper.keep(std::move(started));
  settled_.restore();
  keeping_seconds_ += keeping.seconds();
}

/// After a loss that is not finite the other micro-batches ran again, if there are any.
void MicroBatchRunner::settle_buffers() {
  if (context_.window.ledger().count(MicroStatus::committed) == 0) at_open_.restore();
  settled_.keep();
}

bool MicroBatchRunner::closes_early(const WindowRun& run) const {
  const WindowKeeper& keeper = options_.keeper;
  if (keeper.ranks == nullptr) return false;
  return keeper.ranks->close_early(context_.control.asked_to_stop() ||
                                   keeper.is_due(seconds_so_far(run) + waited_seconds()));
}

/// Leaves everything from `position` on undone.
void MicroBatchRunner::leave(std::size_t position, const WindowRequest& request, WindowRun& run) {
  context_.loader.cancel();
  for (std::size_t i = position; i < request.micro_batches.size(); ++i)
    run.left += request.micro_batches[i].size();
}

/// Each rank has the sums of all in its buffer: the first one keeps them, and continues with them
/// and with all that is done; the others continue only with their shares of the rest.
Filled MicroBatchRunner::keep_with_others(WindowRequest& request, WindowRun& run) {
  const WindowKeeper& keeper = options_.keeper;
  const WindowMiddle all = keeper.ranks->gather_middle(middle_of(request, run));
  settle_buffers();
  StoredTensors buffers = stored_buffers(context_.model);
  at_open_.restore();
  const bool goes_on_with_sums = keeper.ranks->is_first();
  if (goes_on_with_sums) {
    StartedWindow started{.middle = all, .tensors = stored_sums(*context_.window.buffer())};
    started.tensors.insert(started.tensors.end(), buffers.begin(), buffers.end());
    keeper.keep(std::move(started));
  } else {
    buffers = stored_buffers(context_.model);
  }
  if (run.stop_requested) return Filled::interrupted;
  StartedWindow part{.middle = keeper.ranks->part_of(all), .tensors = std::move(buffers)};
  filled_before_ = run.seconds - run.earlier_seconds;
  part.middle.seconds = run.earlier_seconds;
  if (goes_on_with_sums)
    context_.window.take_over(entries_of(all));
  else
    context_.window.discard();
  request.go_on_from(std::move(part), keeper.micro_batch());
  request.was_told = true;
  return Filled::goes_on;
}

std::optional<StartedWindow> MicroBatchRunner::completed_part(const WindowRequest& request,
                                                              const WindowRun& run) const {
  const accum::Window& window = context_.window;
  const bool are_own = options_.reduce != nullptr && options_.reduce->has_local_sums();
  if (!are_own || window.is_unfinished() || window.in_micro_batch() || window.is_lost() ||
      !unread_.empty())
    return std::nullopt;
  return with_copies(started_window(request, run));
}

/// Its sums are read when they are copied.
StartedWindow MicroBatchRunner::started_window(const WindowRequest& request,
                                               const WindowRun& run) const {
  StartedWindow started{.middle = middle_of(request, run),
                        .tensors = stored_sums(*context_.window.buffer())};
  for (StoredTensor& buffer : stored_buffers(context_.model))
    started.tensors.push_back(std::move(buffer));
  return started;
}

/// A micro-batch that ran out of memory before it ran again, or was split, is not recorded.
WindowMiddle MicroBatchRunner::middle_of(const WindowRequest& request, const WindowRun& run) const {
  const accum::Window& window = context_.window;
  WindowMiddle middle{.window = request.index,
                      .loss_scale = window.loss_scale(),
                      .micro_batches = request.micro_batches,
                      .done = {},
                      .contributions = contributions_of(*window.buffer()),
                      .units = window.buffer()->units(),
                      .tokens = run.tokens,
                      .seconds = seconds_so_far(run),
                      .unreadable = run.unreadable};
  if (options_.loss_scaler) middle.loss_scaler = options_.loss_scaler->state();
  if (options_.noise != nullptr) middle.noise_sums = options_.noise->sums();
  for (const LedgerEntry& entry : window.ledger().entries) {
    if (!is_settled(entry)) continue;
    DoneMicroBatch& done = middle.append(entry);
    const auto noted = losses_.by_micro_batch().find(entry.micro.index);
    if (noted == losses_.by_micro_batch().end()) continue;
    done.loss_sums = noted->second.sums;
    done.loss_weights = noted->second.weights;
    done.measures = noted->second.measures;
  }
  return middle;
}

}  // namespace accrue::train
