#include "accrue/core/ledger.h"

#include <algorithm>

namespace accrue {

std::string describe(const MicroRef& micro) {
  std::string text = "micro-batch " + std::to_string(micro.index);
  if (micro.sample_ids.empty()) return text;
  text += " (samples " + std::to_string(micro.sample_ids.front());
  if (micro.sample_ids.size() > 1) text += " to " + std::to_string(micro.sample_ids.back());
  return text + ")";
}

double LedgerView::committed_weight() const {
  double weight = 0;
  for (const LedgerEntry& entry : entries)
    if (entry.status == MicroStatus::committed) weight += entry.micro.weight;
  return weight;
}

double LedgerView::committed_loss_sum() const {
  double sum = 0;
  for (const LedgerEntry& entry : entries)
    if (entry.status == MicroStatus::committed) sum += entry.loss_sum;
  return sum;
}

std::int64_t LedgerView::count(MicroStatus status) const {
  return std::ranges::count(entries, status, &LedgerEntry::status);
}

}  // namespace accrue
