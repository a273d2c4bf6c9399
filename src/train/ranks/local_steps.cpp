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

/// The sums of ranks in addition to weights, in this order: counts, whether each window had weight,
/// then requests. Checkpoints hold a rank's own, so new counts are appended to the existing ones
/// (OuterRounds::load_own_state).
enum RoundCount { kTokens, kQuarantined, kWindows, kRoundCounts };
enum RoundRequest { kStops, kWrites, kRequests };

/// The last part is exchanged once a round, and once more if the run ends after that.
std::size_t places_for(const DistConfig& dist) {
  return static_cast<std::size_t>(dist.local_steps + dist.outer_delay);
}

std::int64_t windows_in(const std::vector<double>& sums) {
  return static_cast<std::int64_t>(sums.at(kWindows));
}

std::int64_t windows_with_weight(const std::vector<double>& sums, std::size_t places) {
  const auto first = sums.begin() + kRoundCounts;
  return std::count_if(first, first + static_cast<std::ptrdiff_t>(places),
                       [](double ranks) { return ranks > 0; });
}

/// The prefix in a checkpoint for the names of a single rank's state between rounds.
std::string own_prefix(std::int64_t rank) { return "local" + std::to_string(rank) + "."; }

}  // namespace

LocalSteps::LocalSteps(const ParallelismContext& context)
    : ranks_(context.ranks),
      optimizer_(context.optimizer),
      log_(context.log),
      control_(context.control),
      leases_(context.ranks.rank(), context.state.ranks,
              context.config.dist.shares == Shares::speed),
      window_places_(context.ranks.are_many() ? places_for(context.config.dist) : 0),
      rounds_(context.ranks.make_rounds(
          context.config, context.model.parameters(), kRoundCounts + window_places_ + kRequests,
          kRequests,
          [this](const std::string& reason) { log_.event_of_this_rank("dist", reason); })),
      total_windows_(context.total_steps) {}

batch::Range LocalSteps::share(batch::Range window) {
  const batch::Range mine = leases_.share(window);
  if (leases_.change()) log_.event("leases", *leases_.change());
  return mine;
}

void LocalSteps::close(accum::Window& window, WindowRun& run) { close_window(window, run); }

bool LocalSteps::takes_outer_step_after(std::int64_t windows) const {
  return windows == total_windows_ || rounds_->merges_after(windows);
}

bool LocalSteps::is_within_round(std::int64_t windows) const {
  return windows != total_windows_ && !rounds_->ends_round(windows);
}

/// The sums of this rank for the last window.
std::vector<double> LocalSteps::rank_sums(const TrainState& state, const WindowRun& run) {
  std::vector<double> sums(kRoundCounts + window_places_ + kRequests, 0);
  sums[kTokens] = static_cast<double>(run.tokens);
  sums[kQuarantined] = static_cast<double>(run.quarantined);
  sums[kWindows] = 1;
  if (window_places_ > 0 && run.gradient)
    sums[kRoundCounts + static_cast<std::size_t>(state.window - 1) % window_places_] = 1;
  double* const requests = &sums[kRoundCounts + window_places_];
  requests[kStops] = control_.asked_to_stop() ? 1 : 0;
  requests[kWrites] = std::exchange(asks_to_write_, false) ? 1 : 0;
  return sums;
}

void LocalSteps::after_step(TrainState& state, WindowRun& run) {
  count_own_steps(state, run.gradient.has_value());
  outcome_ = rounds_->after_step({.steps = state.window,
                                  .weight = run.gradient ? run.weight : 0,
                                  .rank_sums = rank_sums(state, run)},
                                 state.window == total_windows_);
  if (outcome_.totals) end_round(*outcome_.totals, state, run);
}

/// A single process knows all windows, and has counted this one.
void LocalSteps::count_own_steps(TrainState& state, bool has_weight) {
  if (window_places_ == 0) return;
  if (has_weight) ++own_;
  state.step = std::max(began_, began_ - unreported_ + own_);
}

/// At the end of a round: the steps that all ranks know replace those of this rank alone.
void LocalSteps::count_steps(const distributed::RoundTotals& totals, TrainState& state) const {
  if (window_places_ == 0) return;
  std::int64_t steps = began_ - unreported_ + windows_in(rounds_->rank_sums());
  steps += windows_with_weight(totals.rank_sums, window_places_);
  state.step = std::max(began_, steps);
}

void LocalSteps::note_unreported_steps() {
  unreported_ = windows_in(rounds_->rank_sums());
  own_ = windows_with_weight(rounds_->rank_sums(), window_places_);
}

void LocalSteps::end_round(const distributed::RoundTotals& totals, TrainState& state,
                           WindowRun& run) {
  const auto whole = [&](std::size_t figure) {
    return static_cast<std::int64_t>(totals.rank_sums.at(figure));
  };
  count_steps(totals, state);
  if (totals.weight == 0 && whole(kQuarantined) > 0)
    throw runtime_error(
        "the round that ends with step " + std::to_string(state.step), "a finite loss",
        "none in any of its micro-batches",
        "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
  state.tokens = tokens_ += whole(kTokens);
  const std::size_t requests = kRoundCounts + window_places_;
  run.stop_requested = whole(requests + kStops) > 0;
  writes_ = whole(requests + kWrites) > 0;
  last_began_ = std::exchange(began_, state.step);
  note_unreported_steps();
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

/// The state that ranks have alone is gathered on the first, which has its own.
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
  begin_round(state);
  tokens_ = state.tokens;
  if (!ranks_.is_first())
    optimizer_.load_state(state_under(optimizer_prefix(ranks_.rank()), of_ranks));
}

/// Begins a round like a run that continues from a checkpoint, which is written between rounds.
void LocalSteps::begin_round(const TrainState& state) {
  std::int64_t before = std::max<std::int64_t>(0, state.window - 1);
  while (before > 0 && !rounds_->ends_round(before)) --before;
  began_ = state.step;
  last_began_ = std::max<std::int64_t>(0, state.step - (state.window - before));
  note_unreported_steps();
}

}  // namespace accrue::train
