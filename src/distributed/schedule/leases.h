#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/core/ledger.h"

namespace accrue::distributed {

/// How fast a rank is. A unit of work is a micro-batch, or a sample where ranks have micro-batches
/// of their own sizes; all ranks that are compared have one unit.
struct Pace {
  double seconds = 0;  ///< for a unit; 0: not known yet
  double error = 0;    ///< standard error of `seconds`, relative to it
};

/// How many standard errors make a difference between paces.
inline constexpr double kErrors = 2;

/// A rank's pace from what it did in the last windows: the lower median of their seconds per unit,
/// so that neither a cold start nor a disturbance moves it, and a lasting change has moved it after
/// five windows. The error comes from the median absolute deviation (scaled to a standard
/// deviation, as of normal noise). Plain data: two estimates of the same observations are the same.
class PaceEstimate {
 public:
  static constexpr std::size_t kWindows = 9;
  /// `observed` is what another estimate's observed() was, as a checkpoint keeps it.
  explicit PaceEstimate(std::vector<double> observed = {});

  /// Takes a window in which the rank ran `units` in `seconds`, its waiting left out. After a
  /// window without any work its pace is taken to be a tenth better than it was, so that a rank
  /// once found too slow for a share gets a unit again after some windows, and is measured.
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
  std::int64_t grain = 1;  ///< units it runs at once: samples of its micro-batch
  bool takes_part = true;  ///< else it gets no unit
};

/// One rank's units [begin, begin + count) of those that are divided.
struct Lease {
  std::int64_t rank = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;  ///< may be 0
  bool operator==(const Lease&) const = default;
};

struct Division {
  std::vector<Lease> leases;  ///< one for each worker, by rank, which is also the order of units
  double seconds = 0;         ///< until the last rank is done, predicted; 0 if no pace is known
  double equal_seconds = 0;   ///< what `seconds` would be with as many units for each rank
  std::string reason;
};

/// Divides `units`, taken to be alike, into contiguous ranges that are done together: each rank's
/// next grain goes where it is done first. With grains of 1 no division is done sooner; with larger
/// ones it is done within one grain's time of the soonest. Ranges are multiples of the rank's
/// grain, up to the last grain given.
///
/// A pace that differs from the lower median of those that take part by no more than twice its
/// error is taken for the median's, so that ranks of one kind get one share; so is one not known.
/// Where none is known the ranks get equal shares.
///
/// It is pure: the same for the same workers in any order. A rank that gets faster, with grains of
/// 1, never gets fewer units. Throws a usage Error if no worker takes part, a rank is given
/// twice, or a pace or grain is out of range.
Division divide(std::int64_t units, const std::vector<Worker>& workers);

/// A micro-batch that a rank works on.
struct Running {
  std::int64_t rank = 0;
  std::int64_t micro_batch = 0;  ///< its index in the window
  double since = 0;              ///< seconds on the clock of `now`
};

/// Which micro-batches of a window each rank is to do.
struct Leases {
  std::vector<std::int64_t> micro_batches;  ///< indices of those that are leased, in window order
  Division division;                        ///< how these are divided
  /// The micro-batches of one rank; empty if it has none.
  std::span<const std::int64_t> of(std::int64_t rank) const;
};

/// Leases what is left of a window: the pending micro-batches that nobody works on, and the lost
/// ones, which a rank that is gone had. Units are micro-batches; grains must be 1. A rank is free
/// when the micro-batch it works on is done by its pace; a rank that works on it for longer is
/// taken to be as slow as that.
///
/// Only who runs a micro-batch is decided, never what is in it. So with `accumulate = "fixed"`,
/// whose sums do not depend on the order, a window whose micro-batches follow from the batch alone
/// gives the same bits for every division and every number of ranks. If ranks make their own
/// micro-batches of ranges of samples (`divide` with grains), contents depend on the division, and
/// gradients agree up to rounding.
///
/// It is pure, as divide() is. All ranks decide alike if they are given the same paces, which are
/// exchanged with the totals of the window before.
///
/// Runs of this version divide whole windows by divide(); this is for ranks that come and go.
Leases decide(const LedgerView& ledger, const std::vector<Worker>& workers, double now,
              const std::vector<Running>& running = {});

}  // namespace accrue::distributed
