#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch/schedule.h"
#include "distributed/schedule/window_shares.h"
#include "train/checkpoint/rank_record.h"

namespace accrue::train {

/// The share of a window that each rank of a run runs (distributed::WindowShares), in ranges of the
/// run's samples, with the records that checkpoints keep of the ranks.
class WindowLeases {
 public:
  static constexpr std::size_t kFewestWindows = distributed::WindowShares::kFewestWindows;

  /// `records` by rank, of which `rank` is this one.
  WindowLeases(std::int64_t rank, std::vector<RankRecord> records, bool by_speed);

  /// From the next window on each rank works so much of the time, by rank
  /// (distributed::WindowShares::limit).
  void limit(std::vector<double> speeds) { shares_.limit(std::move(speeds)); }
  /// This rank's share of `window`, to which the next observe() refers. It may be empty.
  batch::Range share(batch::Range window);
  /// All ranks' shares of that window, by rank.
  const std::vector<batch::Range>& shares() const { return ranges_; }
  /// distributed::WindowShares::change() of the last share().
  const std::optional<std::string>& change() const { return shares_.change(); }

  /// distributed::WindowShares::figures() and observe()
  std::vector<double> figures(double seconds) const { return shares_.figures(seconds); }
  void observe(const std::vector<accum::RankStatement>& of_ranks) { shares_.observe(of_ranks); }

  /// The values that a checkpoint keeps for each rank now.
  std::vector<RankRecord> records() const;

 private:
  std::vector<RankRecord> records_;
  distributed::WindowShares shares_;
  std::vector<batch::Range> ranges_;  ///< the last window's, by rank
};

}  // namespace accrue::train
