#include "train/window/close_window.h"

#include <utility>

namespace accrue::train {
namespace {

/// The sums of ranks, in this order; those of noise and the caller's follow.
enum Figure { kTokens, kMicroBatches, kStops, kCheckpoints, kRankSums };

std::int64_t total_of(Figure figure, const WindowRun& run) {
  return static_cast<std::int64_t>(run.together->rank_sums.at(figure));
}

/// Takes the requests of all ranks.
void take_requests(const distributed::DeferredReduce& reduce, WindowRun& run) {
  run.together = reduce.totals();
  run.stop_requested = total_of(kStops, run) > 0;
  run.checkpoint_requested = total_of(kCheckpoints, run) > 0;
  const std::vector<double>& sums = run.together->rank_sums;
  run.rank_sums.assign(sums.begin() + kRankSums + std::ssize(run.noise_sums), sums.end());
}

/// Takes the totals of the window.
void take_totals(WindowRun& run) {
  const distributed::WindowTotals& totals = *run.together;
  const auto noise = totals.rank_sums.begin() + kRankSums;
  run.noise_sums.assign(noise, noise + std::ssize(run.noise_sums));
  run.loss_sum = totals.loss_sum;
  run.weight = totals.weight;
  run.quarantined = totals.quarantined;
  run.tokens = total_of(kTokens, run);
  run.micro_batches = total_of(kMicroBatches, run);
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
                         const Asked& asked, const std::vector<double>& rank_sums, WindowRun& run) {
  std::vector<double> figures(kRankSums);
  figures[kTokens] = static_cast<double>(run.tokens);
  figures[kMicroBatches] = static_cast<double>(run.micro_batches);
  figures[kStops] = asked.to_stop ? 1 : 0;
  figures[kCheckpoints] = asked.for_checkpoint ? 1 : 0;
  figures.insert(figures.end(), run.noise_sums.begin(), run.noise_sums.end());
  figures.insert(figures.end(), rank_sums.begin(), rank_sums.end());
  reduce.set_rank_sums(std::move(figures));
  reduce.set_left(run.left);
  close_window(window, run);
  take_requests(reduce, run);
  if (!window.is_unfinished()) take_totals(run);
}

}  // namespace accrue::train
