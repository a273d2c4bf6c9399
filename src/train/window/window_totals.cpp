#include "train/window/window_totals.h"

#include <utility>

namespace accrue::train {
namespace {

/// In this order; those of the hook follow.
enum Figure { kTokens, kMicroBatches, kStops, kRankSums };

}  // namespace

void tell_rank_sums(distributed::DeferredReduce& reduce, const WindowHooks& hooks,
                    double own_seconds, const WindowRun& result) {
  std::vector<double> rank_sums(kRankSums);
  rank_sums[kTokens] = static_cast<double>(result.tokens);
  rank_sums[kMicroBatches] = static_cast<double>(result.micro_batches);
  rank_sums[kStops] = hooks.stop_requested && hooks.stop_requested() ? 1 : 0;
  if (hooks.rank_sums)
    for (const double figure : hooks.rank_sums(own_seconds)) rank_sums.push_back(figure);
  reduce.set_rank_sums(std::move(rank_sums));
}

void take_totals(const distributed::DeferredReduce& reduce, WindowRun& result) {
  const distributed::WindowTotals& totals = reduce.totals();
  const auto whole = [&](Figure figure) {
    return static_cast<std::int64_t>(totals.rank_sums.at(figure));
  };
  result.together = totals;
  result.rank_sums.assign(totals.rank_sums.begin() + kRankSums, totals.rank_sums.end());
  result.loss_sum = totals.loss_sum;
  result.weight = totals.weight;
  result.quarantined = totals.quarantined;
  result.tokens = whole(kTokens);
  result.micro_batches = whole(kMicroBatches);
  result.stop_requested = whole(kStops) > 0;
}

}  // namespace accrue::train
