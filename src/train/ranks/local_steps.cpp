#include "train/ranks/local_steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "core/joint_state.h"
#include "train/checkpoint/checkpoint.h"
#include "train/window/close_window.h"

namespace accrue::train {
namespace {

/// What ranks add up beside weights, in this order.
enum RoundFigure { kTokens, kQuarantined, kStops };

}  // namespace

LocalSteps::LocalSteps(const ParallelismContext& context)
    : ranks_(context.ranks),
      optimizer_(context.optimizer),
      log_(context.log),
      control_(context.control),
      leases_(context.ranks.rank(), context.state.ranks,
              context.config.dist.shares == Shares::speed),
      rounds_(context.ranks.make_rounds(context.config, context.model.parameters())),
      total_steps_(context.total_steps) {}

batch::Range LocalSteps::share(batch::Range window) {
  const batch::Range mine = leases_.share(window);
  if (leases_.change()) log_.event("leases", *leases_.change());
  return mine;
}

void LocalSteps::close(accum::Window& window, WindowRun& run) { close_window(window, run); }

bool LocalSteps::ends_round(std::int64_t windows) const {
  return windows == total_steps_ || rounds_->ends_round(windows);
}

void LocalSteps::after_step(TrainState& state, WindowRun& run) {
  if (run.gradient) weight_ += run.weight;
  tokens_ += run.tokens;
  quarantined_ += run.quarantined;
  state.step = state.window;
  ended_.reset();
  if (ends_round(state.window)) end_round(state, run);
}

void LocalSteps::end_round(TrainState& state, WindowRun& run) {
  ended_ =
      rounds_->end({.steps = state.step,
                    .weight = weight_,
                    .rank_sums = {static_cast<double>(tokens_), static_cast<double>(quarantined_),
                                  control_.asked_to_stop() ? 1.0 : 0.0}});
  const auto whole = [&](RoundFigure figure) {
    return static_cast<std::int64_t>(ended_->rank_sums.at(figure));
  };
  if (ended_->weight == 0 && whole(kQuarantined) > 0)
    throw runtime_error(
        "the round that ends with step " + std::to_string(state.step), "a finite loss",
        "none in any of its micro-batches",
        "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
  state.tokens += whole(kTokens) - tokens_;
  run.stop_requested = whole(kStops) > 0;
  last_began_ = std::exchange(began_, state.step);
  weight_ = 0;
  tokens_ = quarantined_ = 0;
}

void LocalSteps::report(const WindowRun&, StepReport& report) const {
  if (!ended_) return;
  report.reduce_seconds = report.reduce_exposed_seconds = ended_->reduce_seconds;
  report.wire_bytes = ended_->wire_bytes;
}

NamedParameters LocalSteps::state(TrainState& state) {
  NamedParameters of_ranks = rounds_->state();
  state.inner_optimizers = ranks_.world();
  std::int64_t rank = 0;
  for (const NamedParameters& inner : ranks_.states_of_others(optimizer_.state()))
    append_state(of_ranks, optimizer_prefix(++rank), inner);
  return of_ranks;
}

void LocalSteps::load_state(const StoredTensors& of_ranks, const TrainState& state) {
  rounds_->load_state(of_ranks);
  begin_round(state.window);
  if (!ranks_.is_first())
    optimizer_.load_state(state_under(optimizer_prefix(ranks_.rank()), of_ranks));
}

/// Begins a round as a run does that goes on from a checkpoint, which is made between rounds.
void LocalSteps::begin_round(std::int64_t steps) {
  began_ = steps;
  last_began_ = std::max<std::int64_t>(0, steps - 1);
  while (last_began_ > 0 && !rounds_->ends_round(last_began_)) --last_began_;
}

}  // namespace accrue::train
