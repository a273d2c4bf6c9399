#include <ATen/record_function.h>

#include "train/checkpoint/checkpoint_folders.h"
#include "train/run/run_loop.h"

namespace accrue::train {

void RunLoop::checkpoint_if_due(bool last) {
  if (written_step_ == state_.step) return;
  const bool due = last || checkpoint_cadence_.due(state_.step, asked_before());
  if (writes_together() ? parts_.ranks.as_first_says(due) : due) write();
}

void RunLoop::write() { begin_writing(state_of_ranks()); }

void RunLoop::begin_writing(NamedParameters of_ranks) {
  if (!parts_.ranks.is_first()) {
    if (parts_.sharded != nullptr) parts_.sharded->hand_over();
    written_step_ = state_.step;
    return;
  }
  state_.elapsed = elapsed_before_ + watch_.seconds();
  state_.units = window_.buffer()->units();
  state_.micro_batches = recovery_.state();
  state_.ranks = leases_.records();
  finish_writing();
  CheckpointContent content = checkpoint_content(state_, config_.model, model_, parts_.optimizer);
  content.ranks = std::move(of_ranks);
  if (parts_.sharded != nullptr) content.gathered = parts_.sharded->whole_state();
  writer_.start(
      [directory = parts_.directory, content = std::move(content),
       prune = PruneOptions{.newest = state_.step,
                            .keep = config_.run.keep,
                            .best = config_.run.keep_best ? state_.best_step : std::nullopt}] {
        RECORD_USER_SCOPE("checkpoint: write");
        write_checkpoint(directory, content);
        prune_checkpoints(directory, prune);
      });
  written_step_ = state_.step;
  // What is folded into the optimizer's state changes it within the window; what is brought
  // together from the ranks must not meet the next window's collectives.
  if (window_.buffer()->folds() || parts_.sharded != nullptr) finish_writing();
  checkpoint_cadence_.done();
}

void RunLoop::finish_writing() {
  RECORD_USER_SCOPE("checkpoint: wait");
  try {
    writer_.finish();
  } catch (...) {
    written_step_ = -1;
    throw;
  }
}

}  // namespace accrue::train
