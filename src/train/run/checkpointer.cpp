#include "train/run/checkpointer.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "accrue/core/units.h"
#include "accrue/memory/offload.h"
#include "core/helper_thread.h"
#include "core/timed_scope.h"
#include "support/single_core_scope.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/resume.h"

namespace accrue::train {
namespace {

std::int64_t bytes_of(const StoredTensors& tensors) {
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.dtype == at::ScalarType::Undefined) continue;
    auto of_one = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
    for (const std::int64_t size : tensor.shape) of_one *= size;
    bytes += of_one;
  }
  return bytes;
}

std::int64_t bytes_of(const CheckpointContent& content) {
  return bytes_of(stored(content.model)) + bytes_of(stored(content.optimizer)) +
         bytes_of(content.window);
}

bool has_offloaded_tensors(const CheckpointContent& content) {
  const auto is_offloaded = [](const NamedParameter& parameter) {
    return parameter.tensor.defined() && memory::is_offloaded(parameter.tensor);
  };
  return std::ranges::any_of(content.model, is_offloaded) ||
         std::ranges::any_of(content.optimizer, is_offloaded);
}

}  // namespace

Checkpointer::Checkpointer(const RunContext& run, Progress& progress,
                           const memory::Recovery& recovery, const accum::GradientBuffer& buffer,
                           Parallelism& parallelism, RunLog& log, const BatchControl& batch)
    : run_(run),
      progress_(progress),
      recovery_(recovery),
      buffer_(buffer),
      parallelism_(parallelism),
      log_(log),
      cadence_(batch.cadence(run.work.config.run.checkpoint_every, "run.checkpoint_every")) {}

void Checkpointer::write_if_due(bool last) {
  report_replica();
  if (written_step_ == progress_.state.step) return;
  const bool due = last || is_due();
  const auto agreed =
      parallelism_.writes_together() ? parallelism_.agreed_to_write(due) : std::optional(due);
  if (agreed ? *agreed : any_rank_asks(due)) write();
}

void Checkpointer::write_while_waiting() {
  report_replica();
  if (written_step_ == progress_.state.step) return;
  const bool due = is_due();
  if (parallelism_.writes_together() ? any_rank_asks(due) : due) write();
}

/// By the first rank's clock, or because this one was asked.
bool Checkpointer::is_due() const {
  const std::int64_t step = progress_.state.step;
  return is_asked_ || run_.notice.is_given() ||
         (run_.ranks.is_first() && cadence_.due(step, parallelism_.step_before(step)));
}

bool Checkpointer::any_rank_asks(bool mine) const { return !run_.ranks.all_true(!mine); }

bool Checkpointer::due_in_window(double seconds) const {
  return run_.notice.is_given() || (run_.ranks.is_first() && cadence_.due_within_step(seconds));
}

void Checkpointer::write_in_window(StartedWindow started) {
  if (started.middle.done.empty()) return write_last_step();
  const TimedScope still(seconds_);
  wait();  // a checkpoint that is being written needs space as well
  started.middle.micro_batch = recovery_.state().micro_batch;
  started.middle.exclude = run_.work.config.data.exclude;
  const std::string done =
      started.middle.in_words() + " of step " + std::to_string(progress_.state.step + 1);
  CheckpointContent content = present_content(std::move(started));
  if (const std::string lack = lack_of_room(content, run_.directory.root()); !lack.empty()) {
    answered();
    return log_.event_of_last_step(
        "checkpoint", done +
                          " are done and not kept, so that a resumption begins the step again: " +
                          "a checkpoint with their gradient sums takes " + lack);
  }
  write_in_background(std::move(content));
  wait();
  log_.event_of_last_step("checkpoint", done + " are kept in the checkpoint of step " +
                                            std::to_string(progress_.state.step) +
                                            ": a resumption goes on with the others");
}

void Checkpointer::write_last_step() {
  if (written_step_ != progress_.state.step) write();
  answered();
}

std::string lack_of_room(const CheckpointContent& content, const std::filesystem::path& folder) {
  const std::int64_t needed = bytes_of(content), free = free_bytes_at(folder);
  if (free >= needed) return {};
  return format_bytes(needed) + ", and the disk has " + format_bytes(free);
}

/// Marks requests for a checkpoint, by the clock or by a notice, as fulfilled.
void Checkpointer::answered() {
  run_.notice.take();
  is_asked_ = false;
  cadence_.done();
}

void Checkpointer::write() {
  const TimedScope still(seconds_);
  begin_writing(parallelism_.state(progress_.state));
}

void Checkpointer::write_last() {
  if (written_step_ != progress_.state.step) write();
  finish();
}

void Checkpointer::begin_writing(NamedParameters of_ranks) {
  TrainState& state = progress_.state;
  StoredTensors model = parallelism_.gather_model(run_.work.model->file_tensors());
  if (!run_.ranks.is_first()) {
    parallelism_.gather_optimizer();
    // Notices that the other ranks have not received yet are still to be sent.
    if (parallelism_.writes_together()) run_.notice.take();
    is_asked_ = false;
    written_step_ = state.step;
    return;
  }
  CheckpointContent content = present_content(progress_.started);
  content.ranks = std::move(of_ranks);
  if (!model.empty()) content.model.clear();
  content.gathered_model = std::move(model);
  content.gathered = parallelism_.gather_optimizer();
  // An optimizer may have no state to gather.
  const bool is_gathered = !content.gathered.empty() || !content.gathered_model.empty();
  const bool is_offloaded = has_offloaded_tensors(content);
  write_in_background(std::move(content));
  // Gradients folded into the optimizer's state change it within the window; gathering from the
  // ranks must not overlap the next window's collectives. If the state is offloaded, the writer and
  // a window would each evict what the other one reads.
  if (buffer_.folds() || is_gathered || is_offloaded) wait();
}

/// The present state of the run, with the finished part of the next window.
CheckpointContent Checkpointer::present_content(const std::optional<StartedWindow>& started) {
  const TrainState& state = present_state();
  CheckpointContent content =
      checkpoint_content(state, run_.work.config.model, *run_.work.model, run_.optimizer);
  if (run_.metrics != nullptr) content.metrics = run_.metrics->as_of(state.step);
  return started ? with_middle(std::move(content), *started) : content;
}

CheckpointContent with_middle(CheckpointContent content, const StartedWindow& started) {
  content.state.middle = started.middle;
  content.window = started.tensors;
  return content;
}

/// Writes on another thread if one can be started, after the previous write has ended.
void Checkpointer::write_in_background(CheckpointContent content) {
  wait();
  const RunConfig& config = run_.work.config.run;
  const TrainState& state = progress_.state;
  const bool is_beside = writer_.start(
      [directory = run_.directory, content = std::move(content), claim = run_.claim,
       replica = run_.replica,
       prune = PruneOptions{.newest = state.step,
                            .keep = config.keep,
                            .best = config.keep_best ? state.best_step : std::nullopt}] {
        RECORD_USER_SCOPE("checkpoint: write");
        const SingleCoreScope beside_the_training;
        const auto expect_held = [claim] {
          if (claim != nullptr) claim->check_there();
        };
        write_checkpoint(directory, content, expect_held);
        expect_held();
        if (replica != nullptr) replica->copy(prune);
        prune_checkpoints(directory, prune, expect_held);
      });
  if (!is_beside && !std::exchange(writes_in_place_, true))
    log_.event_of_last_step("checkpoint", in_place_in_words("checkpoints are written"));
  written_step_ = state.step;
  answered();
}

const TrainState& Checkpointer::present_state() {
  TrainState& state = progress_.state;
  progress_.keep_time();
  state.units = buffer_.units();
  state.micro_batches = recovery_.state();
  state.ranks = parallelism_.records();
  return state;
}

void Checkpointer::finish() {
  if (!writer_.is_busy()) return;
  const TimedScope still(seconds_);
  wait();
}

void Checkpointer::wait() {
  RECORD_USER_SCOPE("checkpoint: wait");
  try {
    writer_.finish();
  } catch (...) {
    written_step_ = -1;
    throw;
  }
}

void Checkpointer::report_replica() const {
  if (run_.replica == nullptr) return;
  for (const std::string& remark : run_.replica->take_remarks())
    log_.event_of_last_step("replica", remark);
}

std::exception_ptr Checkpointer::save_after_error(bool is_whole) noexcept {
  const std::int64_t step = progress_.state.step;
  try {
    finish();
    if (!is_whole || !parallelism_.can_write_alone() || step == 0 || written_step_ == step)
      return nullptr;
    begin_writing({});
    finish();
  } catch (const ModelNotFinite&) {
    return std::current_exception();
  } catch (const std::exception&) {
    // The first error is the one to report; earlier checkpoints are untouched.
  }
  return nullptr;
}

std::optional<double> Checkpointer::take_seconds() {
  const double seconds = std::exchange(seconds_, 0);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

void Checkpointer::go_back(const std::string& reason) {
  const Resumed last =
      load_checkpoint(RunCopies(run_.directory), std::to_string(written_step_),
                      progress_.state.data, false, *run_.work.model, run_.optimizer);
  progress_.go_back_to(last.state);
  log_.rollback();
  log_.event("rollback", reason + ": the run goes on after step " +
                             std::to_string(progress_.state.step) + ", from " +
                             last.checkpoint.filename().string());
}

/// Called if the run itself has no checkpoint, or its folder is gone.
std::string Checkpointer::replica_text() const {
  const std::vector<std::int64_t> steps =
      run_.replica == nullptr ? std::vector<std::int64_t>()
                              : RunDirectory(run_.replica->path()).checkpoint_steps();
  if (steps.empty()) return "no checkpoint was written yet";
  return "step " + std::to_string(steps.back()) + " is saved in " + run_.replica->path().string() +
         ", and --resume goes on after it";
}

/// Another rank may look while the first one is writing a later checkpoint.
std::string Checkpointer::saved_state_text() const {
  const std::vector<std::int64_t> steps = run_.directory.checkpoint_steps();
  if (steps.empty()) return replica_text();
  return "step " + std::to_string(steps.back()) +
         (run_.ranks.is_first() ? "" : " (or a later one)") +
         " is saved, and --resume goes on after it";
}

}  // namespace accrue::train
