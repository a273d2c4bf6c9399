#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batch/schedule.h"
#include "distributed/schedule/leases.h"
#include "train/checkpoint/rank_record.h"

namespace accrue::train {

/// Which share of a window each rank runs, such that all are done together (distributed::divide):
/// equal shares until speeds are known, and always where they are not to count.
///
/// All ranks construct it with the same records, ask for the same windows and observe the same
/// rank_sums, so all hold the same numbers and divide alike.
///
/// Where all have micro-batches of one size, shares are made of the micro-batches of the undivided
/// window, whose contents so do not depend on speeds. Where sizes differ, shares are ranges of
/// samples, in multiples of each rank's own micro-batch.
class WindowLeases {
 public:
  /// Windows after which a rank's speed is known. The first window of a process is not counted, as
  /// it is slow in its own way.
  static constexpr std::size_t kFewestWindows = 3;
  /// What a new division must gain of a window's time, as predicted: at least this, and twice the
  /// largest standard error of a speed. So noise moves nothing, and nothing goes back and forth.
  static constexpr double kWorthwhile = 0.05;

  /// `records` by rank, of which `rank` is this one's.
  WindowLeases(std::int64_t rank, std::vector<RankRecord> records, bool by_speed);

  /// This rank's share of `window`, which the next observe() is to be about. It may be empty.
  batch::Range share(batch::Range window);
  /// All ranks' shares of that window, by rank.
  const std::vector<batch::Range>& shares() const { return shares_; }
  /// Why the last share() follows other speeds than the one before it; nothing where it does not.
  const std::optional<std::string>& change() const { return change_; }

  /// What this rank adds to the window's rank_sums (distributed::DeferredReduce::set_rank_sums):
  /// `seconds` of its work, without waiting for others.
  std::vector<double> rank_sums(double seconds) const;
  /// Takes the rank_sums that all ranks added up. Throws a runtime Error, on all ranks alike, where
  /// their shares do not make up the window.
  void observe(const std::vector<double>& rank_sums);

  /// What a checkpoint keeps of each rank now.
  std::vector<RankRecord> records() const;

 private:
  std::vector<distributed::Worker> workers() const;
  std::int64_t samples_of_unit() const;
  std::string describe(std::int64_t units, const distributed::Division& division) const;

  std::int64_t rank_;
  std::vector<RankRecord> records_;
  bool by_speed_;
  std::vector<distributed::PaceEstimate> paces_;  ///< by rank; a unit is a sample
  std::vector<distributed::Worker>
      followed_;  ///< the ranks with the speeds that divide windows now
  batch::Range window_;
  std::vector<batch::Range> shares_;  ///< the last window's, by rank
  std::optional<std::string> change_;
  bool is_first_window_ = true;
};

}  // namespace accrue::train
