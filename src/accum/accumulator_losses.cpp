#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "accum/accumulator_ranks.h"
#include "accum/bypass_grad_slots.h"
#include "accum/checked_sum.h"

namespace accrue {
namespace {

std::string list_of(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

/// Counts are exact; other weights may be summed in another order.
bool same_total(double seen, double expected) {
  constexpr double rounding = 1e-9;
  return std::abs(seen - expected) <= rounding * expected;
}

}  // namespace

void Accumulator::expect(LossTotals totals) {
  among_ranks<Error>([&] {
    if (window_.is_open())
      throw usage_error("expect", "no open window", "one with micro-batches pending",
                        "calling it before the window's first backward()");
    open_lazily();
    if (ranks_) totals = ranks_->expect(totals);
    counters_.losses = std::move(totals);
  });
}

void Accumulator::backward(const std::vector<Loss>& losses, BatchSize size,
                           std::vector<std::int64_t> sample_ids) {
  if (losses.size() == 1 && !(counters_.losses && window_.is_open()))
    return backward(losses.front(), size, std::move(sample_ids));
  among_ranks<Error>([&] {
    if (!counters_.losses || !window_.is_open())
      throw usage_error("backward",
                        "the total weights of " + std::to_string(losses.size()) +
                            " losses before the window's first backward",
                        "none", "expect({{W_first, W_second}}), counted from the labels");
    std::vector<double> weights;
    double sums = 0;
    for (const Loss& loss : losses) {
      sums += checked_sum(loss);
      weights.push_back(loss.weight);
    }
    Loss total = counters_.losses->combine(losses);
    // A loss that is not finite counts against the micro-batch even where its factor is 0.
    const double sum = std::isfinite(sums) ? total.sum.item<double>() : sums;
    const double units = units_of(total, size);
    const double samples = samples_of(units, size);
    add({std::move(total), sum, units, samples, std::move(weights), std::move(sample_ids)});
  });
}

void Accumulator::backward_from(const std::vector<at::Tensor>& outputs,
                                const std::vector<at::Tensor>& gradients) {
  if (!window_.is_open())
    throw usage_error("backward_from", "an open window", "none pending",
                      "backward() of the loss before it");
  if (options_.replay || options_.replay_losses)
    throw usage_error("backward_from", "an accumulator without a replay", "one with",
                      "leaving it out: a replay cannot give the gradients of outputs");
  window_.begin({static_cast<std::int64_t>(window_.ledger().entries.size()), {}, 0});
  counters_.loss_weights.emplace_back(counters_.losses ? counters_.losses->size() : 0, 0.0);
  Loss none;
  if (ranks_) ranks_->begin_backward(false);
  if (!window_.is_lost()) guarded([&] { run_backward(outputs, gradients); }, none);
  window_.commit(0, 0);
}

/// The forward pass sees closed slots, as it did the first time: what it returns decides what
/// counts.
Loss Accumulator::replay(const MicroRef& micro) {
  Loss loss;
  {
    const accum::BypassGradSlots closed(*window_.buffer());
    if (counters_.losses) {
      if (!options_.replay_losses)
        throw usage_error("replay", "replay_losses for a window of several losses", "none",
                          "setting AccumulatorOptions::replay_losses");
      loss = counters_.losses->combine(options_.replay_losses(micro));
    } else {
      loss = options_.replay ? options_.replay(micro) : options_.replay_losses(micro).at(0);
    }
  }
  if (loss.weight > 0 || (counters_.losses && loss.sum.requires_grad())) differentiate(loss);
  return loss;
}

bool Accumulator::quarantine(const LedgerEntry& entry) {
  emit("quarantined", "micro-batch " + std::to_string(entry.micro.index) + ": " + entry.reason);
  // Several ranks change their factors together, at the window's close.
  if (!counters_.losses || ranks_) return false;
  return counters_.losses->quarantine(
      counters_.loss_weights.at(static_cast<std::size_t>(entry.micro.index)));
}

/// By loss, of the open window's micro-batches of this status.
std::vector<double> Accumulator::loss_weights(MicroStatus status) const {
  std::vector<double> sums(counters_.losses->size(), 0);
  const LedgerView ledger = window_.ledger();
  for (std::size_t micro = 0; micro < ledger.entries.size(); ++micro) {
    if (ledger.entries[micro].status != status) continue;
    const std::vector<double>& weights = counters_.loss_weights.at(micro);
    for (std::size_t loss = 0; loss < weights.size(); ++loss) sums[loss] += weights[loss];
  }
  return sums;
}

void Accumulator::require_totals(const std::vector<double>& seen) const {
  if (std::ranges::equal(seen, counters_.losses->totals(), same_total)) return;
  throw usage_error("step", "the total weights that expect() was told",
                    list_of(seen) + " instead of " + list_of(counters_.losses->totals()),
                    "counting the labels of exactly the micro-batches of this window, or "
                    "discard() and a new expect()");
}

}  // namespace accrue
