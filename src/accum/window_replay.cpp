#include <algorithm>
#include <cmath>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accum/content_watch.h"
#include "accum/finite_sums.h"
#include "accum/slot_binding.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

}  // namespace

/// Backward reaches the last parameters first, and values that are not finite spread from there to
/// earlier ones: the last parameter is nearest to the cause.
std::string Window::non_finite(Look look) const {
  if (reduction_ != nullptr && reduction_->takes_sums_in_passes()) look = Look::marks;
  const std::vector<Entry>& entries = buffer_->entries();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const bool found = look == Look::sums ? !sum_is_finite(*entry) : entry->slot->found_non_finite;
    if (found) return "the gradient of '" + entry->name + "' is not finite";
  }
  return {};
}

bool Window::quarantine(LedgerEntry& entry, const std::string& reason) {
  entry.status = MicroStatus::quarantined;
  entry.reason = reason;
  const bool others_changed = on_quarantine_ && on_quarantine_(entry);
  recount_ = recount_ || others_changed;
  return others_changed;
}

void Window::settle_losses(const std::vector<SettledLoss>& losses) {
  require_open("settle_losses");
  require_between("settle_losses");
  constexpr const char* reason = "its loss is not finite";
  bool any_bad = false;
  for (const SettledLoss& loss : losses) {
    const auto entry = std::ranges::find_if(entries_, [&](const LedgerEntry& of) {
      return of.micro.index == loss.index && of.status == MicroStatus::committed;
    });
    if (entry == entries_.end()) continue;
    if (std::isfinite(loss.sum)) {
      entry->loss_sum = loss.sum;
      continue;
    }
    quarantine(*entry, reason);
    any_bad = true;
  }
  if (any_bad) undo(reason);
}

std::string Window::settle(LedgerEntry& entry, Look look) {
  const std::string found = non_finite(look);
  if (found.empty()) return enlarge_units();
  const std::string overflow = lower_loss_scale();
  if (overflow.empty()) quarantine(entry, found);
  return overflow.empty() ? found : overflow;
}

/// Only if all is finite: the needs of a quarantined micro-batch must not change the units.
std::string Window::enlarge_units() {
  const bool too_large = std::ranges::any_of(
      buffer_->entries(), [](const Entry& entry) { return entry.slot->found_too_large; });
  if (!too_large) return {};
  buffer_->enlarge_units();
  ++retries_;
  return "a contribution was too large for the units of its sum, which are enlarged now";
}

std::string Window::lower_loss_scale() {
  std::optional<double> next;
  if (on_overflow_) {
    next = on_overflow_();
  } else if (loss_scale_ > 1) {
    next = std::max(1.0, loss_scale_ / 2);
  }
  if (!next) return {};
  const std::string before = std::to_string(loss_scale_);
  loss_scale_ = *next;
  ++retries_;
  return "the gradient overflowed at loss scale " + before + ", and goes on with " +
         std::to_string(*next);
}

void Window::start_over() {
  if (reduction_ != nullptr) reduction_->withdraw();
  if (contents_) contents_->see_own_sums();
  for (const Entry& entry : buffer_->entries()) make_fresh(entry);
  close_slots();
}

void Window::undo(const std::string& reason, Look look) {
  if (buffer_->folds()) return drop_folded(reason);
  try {
    start_over();
    if (ledger().count(MicroStatus::committed) == 0) return;
    if (!replay_) return lose("a micro-batch failed (" + reason + ") and there is no replay");
    while (!replay_committed(look)) start_over();
  } catch (const std::exception& error) {
    close_slots();
    lose(std::string("the replay failed: ") + error.what());
    throw;
  }
}

void Window::drop_folded(const std::string& reason) {
  const bool left_no_trace = buffer_->drop_micro_batch();
  const bool others_stand = !recount_ || !buffer_->is_between_steps();
  if (left_no_trace && others_stand) return;
  lose("what was folded into the optimizer's state cannot be undone (" + reason + ")");
}

/// Returns whether the sums are good. Continues after a quarantine, so that one pass finds all
/// micro-batches to quarantine.
bool Window::replay_committed(Look look) {
  const std::int64_t retries_before = retries_;
  bool good = true;
  for (LedgerEntry& entry : entries_) {
    if (entry.status != MicroStatus::committed) continue;
    run_again(entry);
    if (settle(entry, look).empty()) continue;
    if (retries_ != retries_before) return false;
    good = false;
    start_over();
  }
  return good;
}

void Window::run_again(LedgerEntry& entry) {
  open_slots();
  const Loss loss = replay_(entry.micro);
  check_arrived();
  close_slots();
  if (recount_) {
    entry.loss_sum = loss.sum.item<double>();
    entry.micro.weight = loss.weight;
  } else if (loss.weight != entry.micro.weight) {
    throw usage_error("replay (" + where() + ")",
                      "the weight of the first time, " + std::to_string(entry.micro.weight),
                      std::to_string(loss.weight),
                      "a replay that depends on the micro-batch's index and sample ids alone");
  }
}

void Window::audit() {
  const std::string found = non_finite(Look::sums);
  if (found.empty()) return;
  const std::string overflow = lower_loss_scale();
  undo(overflow.empty() ? found : overflow, Look::sums);
}

void Window::lose(const std::string& reason) {
  lost_ = true;
  lost_reason_ = reason;
  for (LedgerEntry& entry : entries_) {
    if (entry.status != MicroStatus::committed) continue;
    entry.status = MicroStatus::lost;
    entry.reason = reason;
  }
}

}  // namespace accrue::accum
