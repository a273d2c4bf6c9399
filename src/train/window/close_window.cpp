#include "train/window/close_window.h"

#include <utility>

namespace accrue::train {
namespace {

/// What ranks add up first, in this order; the sums of noise and the caller's follow.
enum Figure { kTokens, kMicroBatches, kStops, kRankSums };

void take_totals(const distributed::DeferredReduce& reduce, WindowRun& run) {
  const distributed::WindowTotals& totals = reduce.totals();
  const auto whole = [&](Figure figure) {
    return static_cast<std::int64_t>(totals.rank_sums.at(figure));
  };
  const auto noise = totals.rank_sums.begin() + kRankSums;
  const auto others = noise + std::ssize(run.noise_sums);
  run.together = totals;
  run.noise_sums.assign(noise, others);
  run.rank_sums.assign(others, totals.rank_sums.end());
  run.loss_sum = totals.loss_sum;
  run.weight = totals.weight;
  run.quarantined = totals.quarantined;
  run.tokens = whole(kTokens);
  run.micro_batches = whole(kMicroBatches);
  run.stop_requested = whole(kStops) > 0;
}

}  // namespace

void close_window(accum::Window& window, WindowRun& run) {
  run.gradient = window.close();
  const LedgerView ledger = window.ledger();
  run.loss_sum = ledger.committed_loss_sum();
  run.weight = ledger.committed_weight();
  run.quarantined = ledger.count(MicroStatus::quarantined);
  run.retries = window.retries();
  run.loss_scale = window.loss_scale();
  run.lost_reason = window.lost_reason();
}

void close_shared_window(accum::Window& window, distributed::DeferredReduce& reduce,
                         bool asked_to_stop, const std::vector<double>& rank_sums, WindowRun& run) {
  std::vector<double> figures(kRankSums);
  figures[kTokens] = static_cast<double>(run.tokens);
  figures[kMicroBatches] = static_cast<double>(run.micro_batches);
  figures[kStops] = asked_to_stop ? 1 : 0;
  figures.insert(figures.end(), run.noise_sums.begin(), run.noise_sums.end());
  figures.insert(figures.end(), rank_sums.begin(), rank_sums.end());
  reduce.set_rank_sums(std::move(figures));
  close_window(window, run);
  take_totals(reduce, run);
}

}  // namespace accrue::train
