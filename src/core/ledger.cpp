#include "accrue/core/ledger.h"

#include <algorithm>

namespace accrue {

std::string_view to_string(MicroStatus status) {
  switch (status) {
    case MicroStatus::pending:
      return "pending";
    case MicroStatus::committed:
      return "committed";
    case MicroStatus::quarantined:
      return "quarantined";
    case MicroStatus::lost:
      break;
  }
  return "lost";
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
