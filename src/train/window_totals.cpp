#include "window_totals.h"

#include <utility>

namespace accrue::train {
namespace {

/// In this order; those of the hook follow.
enum Figure { kTokens, kMicroBatches, kStops, kFigures };

}  // namespace

void tell_figures(dist::DeferredReduce& reduce, const WindowHooks& hooks, double own_seconds,
                  const WindowRun& result) {
  std::vector<double> figures(kFigures);
  figures[kTokens] = static_cast<double>(result.tokens);
  figures[kMicroBatches] = static_cast<double>(result.micro_batches);
  figures[kStops] = hooks.stop_requested && hooks.stop_requested() ? 1 : 0;
  if (hooks.figures)
    for (const double figure : hooks.figures(own_seconds)) figures.push_back(figure);
  reduce.set_figures(std::move(figures));
}

void take_totals(const dist::DeferredReduce& reduce, WindowRun& result) {
  const dist::WindowTotals& totals = reduce.totals();
  const auto whole = [&](Figure figure) {
    return static_cast<std::int64_t>(totals.figures.at(figure));
  };
  result.together = totals;
  result.figures.assign(totals.figures.begin() + kFigures, totals.figures.end());
  result.loss_sum = totals.loss_sum;
  result.weight = totals.weight;
  result.quarantined = totals.quarantined;
  result.tokens = whole(kTokens);
  result.micro_batches = whole(kMicroBatches);
  result.stop_requested = whole(kStops) > 0;
}

}  // namespace accrue::train
