#include "train/window/rollback_history.h"

#include "accrue/core/error.h"

namespace accrue::train {

std::set<std::int64_t> RollbackHistory::to_quarantine(std::int64_t window) const {
  const auto found = to_quarantine_.find(window);
  return found == to_quarantine_.end() ? std::set<std::int64_t>() : found->second;
}

void RollbackHistory::torn_by_gradient(const LedgerView& torn, const std::string& reason) {
  const std::int64_t window = torn.window;
  std::optional<std::int64_t> culprit;
  for (const LedgerEntry& entry : torn.entries)
    if (entry.status == MicroStatus::quarantined && !entry.micro.sample_ids.empty())
      culprit = entry.micro.sample_ids.front();
  const bool again = !torn_.insert(window).second;
  const bool learnt = culprit && to_quarantine_[window].insert(*culprit).second;
  if (again && !learnt)
    throw runtime_error("window " + std::to_string(window),
                        "gradients that are finite before they are folded into the optimizer",
                        "twice: " + reason,
                        "a lower optim.lr, or memory.gradients = \"buffer\" with an optimizer that "
                        "has one");
}

void RollbackHistory::torn_by_memory(std::int64_t window, std::int64_t samples,
                                     const std::exception& error) {
  if (short_of_memory_ != window) retries_.start();
  short_of_memory_ = window;
  retries_.window_failed(window, samples, error);
}

std::optional<std::string> RollbackHistory::closed(std::int64_t window) {
  if (short_of_memory_ != window) return std::nullopt;
  short_of_memory_.reset();
  return retries_.take_retry_report();
}

}  // namespace accrue::train
