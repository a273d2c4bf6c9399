#include "distributed/schedule/reported_shares.h"

#include <cstddef>
#include <cstdlib>

namespace accrue::distributed {

void ReportedShares::begin(std::int64_t units, const Division& division) {
  units_ = units;
  counts_.clear();
  for (const Lease& lease : division.leases) counts_.push_back(lease.count);
}

bool ReportedShares::take(std::int64_t units, const Division& division) {
  if (!differ_from(units, division)) return false;
  begin(units, division);
  return true;
}

/// Shares are compared as fractions of their windows, in whole numbers: a tenth is exact.
bool ReportedShares::differ_from(std::int64_t units, const Division& division) const {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    const std::int64_t before = counts_[rank] * units, now = division.leases[rank].count * units_;
    if (kLeastPart * std::abs(now - before) > before) return true;
  }
  return false;
}

}  // namespace accrue::distributed
