#include "train/ranks/local_rounds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

/// What ranks add up beside weights, in this order.
enum RoundFigure { kRoundTokens, kRoundQuarantined, kRoundStops };

}  // namespace

LocalRounds::LocalRounds(std::unique_ptr<distributed::OuterRounds> rounds, std::int64_t total_steps)
    : rounds_(std::move(rounds)), total_steps_(total_steps) {}

void LocalRounds::add(const WindowRun& window, bool stepped) {
  if (stepped) weight_ += window.weight;
  tokens_ += window.tokens;
  quarantined_ += window.quarantined;
}

LocalRounds::End LocalRounds::end(std::int64_t steps, bool stop_requested) {
  End end{.totals = rounds_->end(
              {.steps = steps,
               .weight = weight_,
               .rank_sums = {static_cast<double>(tokens_), static_cast<double>(quarantined_),
                             stop_requested ? 1.0 : 0.0}})};
  const auto whole = [&](RoundFigure figure) {
    return static_cast<std::int64_t>(end.totals.rank_sums.at(figure));
  };
  if (end.totals.weight == 0 && whole(kRoundQuarantined) > 0)
    throw runtime_error(
        "the round that ends with step " + std::to_string(steps), "a finite loss",
        "none in any of its micro-batches",
        "a lower optim.lr, a longer warm-up, or --resume from an earlier checkpoint");
  end.tokens_of_others = whole(kRoundTokens) - tokens_;
  end.stop_requested = whole(kRoundStops) > 0;
  last_began_ = std::exchange(began_, steps);
  weight_ = 0;
  tokens_ = quarantined_ = 0;
  return end;
}

void LocalRounds::End::tell(StepReport& report) const {
  report.reduce_seconds = report.reduce_exposed_seconds = totals.reduce_seconds;
  report.wire_bytes = totals.wire_bytes;
}

void LocalRounds::load_state(const StoredTensors& state, std::int64_t steps) {
  rounds_->load_state(state);
  began_ = steps;
  last_began_ = std::max<std::int64_t>(0, steps - 1);
  while (last_began_ > 0 && !rounds_->ends_round(last_began_)) --last_began_;
}

}  // namespace accrue::train
