#include "core/joint_state.h"
#include "train/run/run_loop.h"

namespace accrue::train {

/// Whether a checkpoint holds what all ranks have to give for it.
bool RunLoop::writes_together() const {
  return parts_.ranks.are_many() &&
         (rounds_ || config_.dist.compress != distributed::Compression::none ||
          parts_.sharded != nullptr);
}

NamedParameters RunLoop::state_of_ranks() {
  NamedParameters state;
  if (reduce_) append_state(state, compression_prefix, reduce_->state());
  if (!rounds_) return state;
  state = rounds_->state();
  state_.inner_optimizers = parts_.ranks.world();
  std::int64_t rank = 0;
  for (const NamedParameters& inner : parts_.ranks.states_of_others(parts_.optimizer.state()))
    append_state(state, optimizer_prefix(++rank), inner);
  return state;
}

/// A checkpoint of one process, or one that was written after a failure, has nothing of
/// compression.
void RunLoop::load_state_of_ranks(const StoredTensors& of_ranks) {
  if (of_ranks.empty()) return;
  const StoredTensors kept = state_under(compression_prefix, of_ranks);
  if (reduce_ && !kept.empty()) reduce_->load_state(kept);
  if (!rounds_) return;
  rounds_->load_state(of_ranks, state_.window);
  if (!parts_.ranks.is_first())
    parts_.optimizer.load_state(state_under(optimizer_prefix(parts_.ranks.rank()), of_ranks));
}

bool RunLoop::is_within_round() const { return rounds_ && !rounds_->ends_after(state_.window); }

/// Evaluations and checkpoints that became due within a round are made at its end.
std::int64_t RunLoop::asked_before() const {
  return rounds_ ? rounds_->last_began() : state_.step - 1;
}

/// All ranks count a step, also those whose part of the window had no weight. The last checkpoint
/// is written before an outer step changes the parameters.
std::optional<LocalRounds::End> RunLoop::local_step_done(WindowRun& window) {
  rounds_->add(window, window.gradient.has_value());
  state_.step = state_.window;
  if (is_within_round()) return std::nullopt;
  finish_writing();
  LocalRounds::End end = rounds_->end(state_.window, parts_.signals.interrupted());
  state_.tokens += end.tokens_of_others;
  window.stop_requested = end.stop_requested;
  return end;
}

/// The first rank may be writing a later one while another one looks.
std::string RunLoop::what_is_saved() const {
  const std::vector<std::int64_t> steps = parts_.directory.checkpoint_steps();
  if (steps.empty()) return "no checkpoint was written yet";
  return "step " + std::to_string(steps.back()) +
         (parts_.ranks.is_first() ? "" : " (or a later one)") +
         " is saved, and --resume goes on after it";
}

}  // namespace accrue::train
