#pragma once

#include <cstdint>
#include <vector>

#include "distributed/schedule/leases.h"

namespace accrue::distributed {

/// The shares that were reported last, so that small changes are not reported: machines that are
/// shared with others change a little all the time.
class ReportedShares {
 public:
  /// A rank's share has to become more or less by more than one part in so many of what was
  /// reported.
  static constexpr std::int64_t kLeastPart = 10;

  /// Takes the first division as reported: everybody expects equal shares.
  void begin(std::int64_t units, const Division& division);
  /// Whether this division is to be reported. If so, it is the last one from now on. Ranks are
  /// those of begin(); windows may have another number of units.
  bool take(std::int64_t units, const Division& division);
  bool are_begun() const { return units_ > 0; }

 private:
  bool differ_from(std::int64_t units, const Division& division) const;

  std::int64_t units_ = 0;
  std::vector<std::int64_t> counts_;  ///< of these units, by rank
};

}  // namespace accrue::distributed
