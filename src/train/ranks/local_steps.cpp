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

/// What ranks add up beside weights, in this order: counts, and then requests.
enum RoundFigure { kTokens, kQuarantined, kStops, kWrites, kRoundFigures };
constexpr std::size_t kRequests = kRoundFigures - kStops;

/// Begins the names in a checkpoint of what a rank alone has between rounds.
std::string own_prefix(std::int64_t rank) { return "local" + std::to_string(rank) + "."; }

}  // namespace

LocalSteps::LocalSteps(const ParallelismContext& context)
    : ranks_(context.ranks),
      optimizer_(context.optimizer),
      log_(context.log),
      control_(context.control),
      leases_(context.ranks.rank(), context.state.ranks,
              context.config.dist.shares == Shares::speed),
      rounds_(context.ranks.make_rounds(
          context.config, context.model.parameters(), kRoundFigures, kRequests,
          [this](const std::string& reason) { log_.event_of_this_rank("dist", reason); })),
      total_steps_(context.total_steps) {}

batch::Range LocalSteps::share(batch::Range window) {
  const batch::Range mine = leases_.share(window);
  if (leases_.change()) log_.event("leases", *leases_.change());
  return mine;
}

void LocalSteps::close(accum::Window& window, WindowRun& run) { close_window(window, run); }

bool LocalSteps::takes_outer_step_after(std::int64_t windows) const {
  return windows == total_steps_ || rounds_->merges_after(windows);
}

bool LocalSteps::is_within_round(std::int64_t windows) const {
  return windows != total_steps_ && !rounds_->ends_round(windows);
}

void LocalSteps::after_step(TrainState& state, WindowRun& run) {
  state.step = state.window;
  outcome_ = rounds_->after_step(
      {.steps = state.step,
       .weight = run.gradient ? run.weight : 0,
       .rank_sums = {static_cast<double>(run.tokens), static_cast<double>(run.quarantined),
                     control_.asked_to_stop() ? 1.0 : 0.0,
                     std::exchange(asks_to_write_, false) ? 1.0 : 0.0}},
      state.window == total_steps_);
  if (outcome_.totals) end_round(*outcome_.totals, state, run);
}

void LocalSteps::end_round(const distributed::RoundTotals& totals, TrainState& state,
                           WindowRun& run) {
  const auto whole = [&](RoundFigure figure) {
    return static_cast<std::int64_t>(totals.rank_sums.at(figure));
  };
  if (totals.weight == 0 && whole(kQuarantined) > 0)
    throw runtime_error(
        "the round that ends with step " + std::to_string(state.step), "a finite loss",
        "none in any of its micro-batches",
        "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
  state.tokens = tokens_ += whole(kTokens);
  run.stop_requested = whole(kStops) > 0;
  writes_ = whole(kWrites) > 0;
  last_began_ = std::exchange(began_, state.step);
}

void LocalSteps::report(const WindowRun&, StepReport& report) const {
  if (!outcome_.merged) return;
  report.reduce_seconds = outcome_.reduce_seconds;
  report.reduce_exposed_seconds = outcome_.exposed_seconds;
  report.wire_bytes = outcome_.wire_bytes;
}

std::optional<bool> LocalSteps::agreed_to_write(bool due) {
  if (!rounds_->leaves_differences()) return std::nullopt;
  asks_to_write_ = due && !writes_;
  return writes_;
}

NamedParameters LocalSteps::state(TrainState& state) {
  NamedParameters of_ranks = rounds_->state();
  state.inner_optimizers = ranks_.world();
  std::int64_t rank = 0;
  for (const NamedParameters& inner : ranks_.states_of_others(optimizer_.state()))
    append_state(of_ranks, optimizer_prefix(++rank), inner);
  append_own_states(of_ranks);
  return of_ranks;
}

/// What ranks alone have is gathered on the first, which has its own.
void LocalSteps::append_own_states(NamedParameters& of_ranks) const {
  const NamedParameters own = rounds_->own_state();
  if (own.empty()) return;
  append_state(of_ranks, own_prefix(ranks_.rank()), own);
  std::int64_t rank = 0;
  for (const NamedParameters& other : ranks_.states_of_others(own))
    append_state(of_ranks, own_prefix(++rank), other);
}

void LocalSteps::load_state(const StoredTensors& of_ranks, const TrainState& state) {
  rounds_->load_state(of_ranks);
  rounds_->load_own_state(state_under(own_prefix(ranks_.rank()), of_ranks));
  begin_round(state.window);
  tokens_ = state.tokens;
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
