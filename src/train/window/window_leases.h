#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch/schedule.h"
#include "distributed/schedule/window_shares.h"
#include "train/checkpoint/rank_record.h"

namespace accrue::train {

/// Which share of a window each rank of a run runs (distributed::WindowShares), in ranges of the
/// run's samples, with the records that checkpoints keep of the ranks.
class WindowLeases {
 public:
  static constexpr std::size_t kFewestWindows = distributed::WindowShares::kFewestWindows;

  /// `records` by rank, of which `rank` is this one's.
  WindowLeases(std::int64_t rank, std::vector<RankRecord> records, bool by_speed);

  /// From the next window on each rank works so much of the time, by rank
  /// (distributed::WindowShares::limit).
  void limit(std::vector<double> speeds) { shares_.limit(std::move(speeds)); }
  /// This rank's share of `window`, which the next observe() is to be about. It may be empty.
  batch::Range share(batch::Range window);
  /// All ranks' shares of that window, by rank.
  const std::vector<batch::Range>& shares() const { return ranges_; }
  /// Why the last share() follows other speeds than the one before it; nothing where it does not.
  const std::optional<std::string>& change() const { return shares_.change(); }

  /// What this rank adds to the window's rank_sums: `seconds` of its work, without waiting for
  /// others.
  std::vector<double> rank_sums(double seconds) const { return shares_.rank_sums(seconds); }
  /// How many these are.
  std::size_t figures() const { return 2 * records_.size(); }
  /// Takes the rank_sums that all ranks added up. Throws a runtime Error, on all ranks alike, that
  /// names those who took another share than theirs.
  void observe(const std::vector<double>& rank_sums) { shares_.observe(rank_sums); }

  /// What a checkpoint keeps of each rank now.
  std::vector<RankRecord> records() const;

 private:
  std::vector<RankRecord> records_;
  distributed::WindowShares shares_;
  std::vector<batch::Range> ranges_;  ///< the last window's, by rank
};

}  // namespace accrue::train
