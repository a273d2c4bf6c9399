#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "accum/accumulator_ranks.h"
#include "accum/bypass_grad_slots.h"
#include "accum/checked_sum.h"
#include "accum/differentiate.h"
#include "accum/same_total.h"
#include "accum/single_thread_guard.h"

namespace accrue {
namespace {

std::string list_of(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

}  // namespace

void Accumulator::expect(LossTotals totals) {
  const accum::SingleThreadGuard::Call call(*thread_, "expect");
  among_ranks<Error>([&] {
    if (window_.is_open())
      throw usage_error("expect", "no open window", "one with micro-batches pending",
                        "calling it before the window's first backward()");
    open_lazily();
    if (ranks_) totals = ranks_->expect(totals);
    counters_.losses = std::move(totals);
  });
}

void Accumulator::backward(std::vector<Loss> losses, BatchSize size,
                           std::vector<std::int64_t> sample_ids) {
  const accum::SingleThreadGuard::Call call(*thread_, "backward");
  if (losses.size() == 1 && !(counters_.losses && window_.is_open()))
    return backward(std::move(losses.front()), size, std::move(sample_ids));
  among_ranks<Error>([&] {
    if (!counters_.losses || !window_.is_open())
      throw usage_error("backward",
                        "the total weights of " + std::to_string(losses.size()) +
                            " losses before the window's first backward",
                        "none",
                        "one Loss of their sum where they count the same terms, or "
                        "expect({{W_first, W_second}}), counted from the labels");
    Micro micro = weighed(losses);
    losses.clear();  // a micro-batch that runs out of memory frees its graph
    micro.units = units_of(micro.loss, size, sample_ids);
    micro.samples = samples_of(micro.units, size);
    micro.sample_ids = std::move(sample_ids);
    add(std::move(micro));
  });
}

/// A micro-batch of the open window from its losses: the sum to differentiate, and the
/// weights.
Accumulator::Micro Accumulator::weighed(const std::vector<Loss>& losses) const {
  if (!counters_.losses) return {.loss = losses.at(0), .sum = checked_sum(losses.at(0))};
  Micro micro;
  double sums = 0;
  for (const Loss& loss : losses) {
    sums += checked_sum(loss);
    micro.weights.push_back(loss.weight);
  }
  micro.loss = counters_.losses->combine(losses);
  // A loss that is not finite makes the micro-batch not finite, even if its factor is 0.
  micro.sum = std::isfinite(sums) ? micro.loss.sum.item<double>() : sums;
  return micro;
}

void Accumulator::backward_from(const std::vector<at::Tensor>& outputs,
                                const std::vector<at::Tensor>& gradients) {
  const accum::SingleThreadGuard::Call call(*thread_, "backward_from");
  if (!window_.is_open())
    throw usage_error("backward_from", "an open window", "none pending",
                      "backward() of the loss before it");
  if (options_.replay || options_.replay_losses)
    throw usage_error("backward_from", "an accumulator without a replay", "one with",
                      "leaving it out: a replay cannot give the gradients of outputs");
  const std::int64_t entry = std::ssize(window_.ledger().entries);
  window_.begin({entry, {}, 0});
  counters_.loss_weights.emplace_back(counters_.losses ? counters_.losses->size() : 0, 0.0);
  counters_.first_entries.push_back(entry);
  Loss none;
  if (ranks_) ranks_->begin_backward(false);
  if (!window_.is_lost())
    guarded(
        [&] {
          const accum::SingleThreadGuard::Backward within(*thread_);
          accum::differentiate(*window_.buffer(), outputs, gradients);
        },
        none);
  window_.commit(0, 0);
}

/// The slots are closed in the forward pass, as in the first run: its result decides what
/// counts.
std::vector<Loss> Accumulator::forward_again(const MicroRef& micro) const {
  const accum::BypassGradSlots closed(*window_.buffer());
  if (!counters_.losses && options_.replay) return {options_.replay(micro)};
  if (!options_.replay_losses)
    throw usage_error("replay", "replay_losses for a window of several losses", "none",
                      "setting AccumulatorOptions::replay_losses");
  return options_.replay_losses(micro);
}

Loss Accumulator::replay(const MicroRef& micro) {
  Loss loss = weighed(forward_again(micro)).loss;
  if (counts(loss)) differentiate(loss);
  return loss;
}

bool Accumulator::quarantine(const LedgerEntry& entry) {
  emit("quarantined", "micro-batch " + std::to_string(entry.micro.index) + ": " + entry.reason);
  // Several ranks change their factors together, when the window closes.
  if (!counters_.losses || ranks_) return false;
  return counters_.losses->quarantine(
      counters_.loss_weights.at(static_cast<std::size_t>(entry.micro.index)));
}

/// By loss, of the open window's micro-batches with this status.
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
  throw usage_error("step", "the total weights given to expect()",
                    list_of(seen) + " instead of " + list_of(counters_.losses->totals()),
                    "counting the labels of exactly the micro-batches of this window, or "
                    "discard() and a new expect()");
}

}  // namespace accrue
