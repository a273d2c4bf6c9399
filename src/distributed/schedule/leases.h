#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/core/ledger.h"

namespace accrue::distributed {

/// The speed of a rank. A unit of work is a micro-batch, or a sample if ranks have different
/// micro-batch sizes; all ranks that are compared have one unit.
struct Pace {
  double seconds = 0;  ///< for a unit; 0: not known yet
  double error = 0;    ///< standard error of `seconds`, relative to it
};

/// The number of standard errors from which paces count as different.
inline constexpr double kErrors = 2;

/// A rank's pace from its last windows: the lower median of their seconds per unit, so that neither
/// a cold start nor a disturbance moves it, and a lasting change has moved it after five windows.
/// The error comes from the median absolute deviation (scaled to a standard deviation, as of normal
/// noise). Plain data: two estimates of the same observations are the same.
class PaceEstimate {
 public:
  static constexpr std::size_t kWindows = 9;
  /// `observed` is the observed() of another estimate, as a checkpoint keeps it.
  explicit PaceEstimate(std::vector<double> observed = {});

  /// Adds a window in which the rank ran `units` in `seconds`, without its waiting. After a window
  /// without any work its pace is assumed to be a tenth better than before, so that a rank once
  /// found too slow for a share gets a unit again after some windows, and is measured.
  void observe(std::int64_t units, double seconds);
  Pace pace() const;
  const std::vector<double>& observed() const { return observed_; }  ///< oldest first

 private:
  std::vector<double> observed_;
};

/// A rank that takes part in a window.
struct Worker {
  std::int64_t rank = 0;
  Pace pace;
  std::int64_t grain = 1;  ///< units run at once: samples of its micro-batch
  bool takes_part = true;  ///< else it gets no unit
};

/// One rank's units [begin, begin + count) of the divided ones.
struct Lease {
  std::int64_t rank = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;  ///< may be 0
  bool operator==(const Lease&) const = default;
};

struct Division {
  std::vector<Lease> leases;  ///< one for each worker, by rank, which is also the order of units
  double seconds = 0;         ///< until the last rank is done, predicted; 0 if no pace is known
  double equal_seconds = 0;   ///< the same with equal shares
  std::string reason;
};

/// Divides `units`, which count as equal, into contiguous ranges that finish together: each next
/// grain goes to the rank that finishes it first. With grains of 1 no division finishes sooner;
/// with larger ones this one finishes within one grain's time of the best. Ranges are multiples of
/// the rank's grain, except for the last grain.
///
/// A pace that differs from the lower median of the participating ranks by no more than twice its
/// error counts as the median's, so that ranks of one kind get equal shares; so does an unknown
/// pace. If none is known the ranks get equal shares.
///
/// A pure function: the same for the same workers in any order. A rank that gets faster, with
/// grains of 1, never gets fewer units. Throws a usage Error if no worker takes part, a rank is
/// given twice, or a pace or grain is out of range.
Division divide(std::int64_t units, const std::vector<Worker>& workers);

/// A micro-batch that a rank works on.
struct RunningMicroBatch {
  std::int64_t rank = 0;
  std::int64_t micro_batch = 0;  ///< its index in the window
  double since = 0;              ///< seconds on the clock of `now`
};

/// The micro-batches of a window that each rank has to do.
struct Leases {
  std::vector<std::int64_t> micro_batches;  ///< indices of the leased ones, in window order
  Division division;                        ///< how these are divided
  /// The micro-batches of one rank; empty if it has none.
  std::span<const std::int64_t> of(std::int64_t rank) const;
};

/// Leases the rest of a window: the pending micro-batches that no rank works on, and the lost ones
/// of ranks that are gone. Units are micro-batches; grains must be 1. A rank is free when its
/// present micro-batch is done by its pace; a rank that works on it for longer is assumed to be
/// that slow.
///
/// This only decides which rank runs a micro-batch, never its contents. So with `accumulate =
/// "fixed"`, whose sums do not depend on the order, a window whose micro-batches follow from the
/// batch alone gives the same bits for every division and every number of ranks. If ranks make
/// their own micro-batches of ranges of samples (`divide` with grains), contents depend on the
/// division, and gradients agree up to rounding.
///
/// A pure function, as divide() is. All ranks decide alike if they are given the same paces, which
/// are exchanged with the totals of the window before.
///
/// Runs of this version divide whole windows by divide(); this is for ranks that come and go.
Leases decide(const LedgerView& ledger, const std::vector<Worker>& workers, double now,
              const std::vector<RunningMicroBatch>& running = {});

}  // namespace accrue::distributed
