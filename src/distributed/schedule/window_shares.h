#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/accum/reduction.h"
#include "distributed/schedule/leases.h"
#include "distributed/schedule/reported_shares.h"

namespace accrue::distributed {

/// A rank that shares windows with others.
struct RankPace {
  std::int64_t micro_batch = 1;                 ///< samples that it runs at once
  std::vector<double> seconds_per_sample = {};  ///< PaceEstimate::observed of earlier windows
};

/// The share of a window that each rank runs, such that all finish together (divide): equal shares
/// until speeds are known, and always if `by_speed` is not set.
///
/// All ranks construct it with the same arguments, ask for the same windows and observe the same
/// statements, so all hold the same numbers and divide alike.
///
/// If all have the same micro-batch size, shares are made of the micro-batches of the undivided
/// window, so their contents do not depend on speeds. If sizes differ, shares are ranges of
/// samples, in multiples of each rank's own micro-batch.
class WindowShares {
 public:
  /// Windows after which a rank's speed is known. A rank's first window is not counted, as it is
  /// slow for its own reasons; if there are earlier ones, of a former group or process, it is: one
  /// of several does not move a median.
  static constexpr std::size_t kFewestWindows = 3;
  /// The least predicted gain of a new division, as a share of a window's time, and at least twice
  /// the largest standard error of a speed. So noise changes nothing, and nothing oscillates.
  static constexpr double kWorthwhile = 0.05;

  /// `ranks` by rank, of which `rank` is this one.
  WindowShares(std::int64_t rank, std::vector<RankPace> ranks, bool by_speed);

  /// From the next share() on each rank works so much of the time, by rank: 1, all of it, before
  /// the first call; 0: it gets no share, and its speed stays as measured. One has to work.
  void limit(std::vector<double> speeds) { allowed_ = std::move(speeds); }

  /// This rank's share, in samples from the window's first, to which the next observe() refers. It
  /// may be empty.
  Lease share(std::int64_t samples);
  /// All ranks' shares of that window, by rank.
  const std::vector<Lease>& shares() const { return shares_; }
  /// Why the last share() follows other speeds than the one before it; nothing if it does not, or
  /// if no rank's share has changed much since the last time (ReportedShares).
  const std::optional<std::string>& change() const { return change_; }

  /// How many figures() there are.
  static constexpr std::size_t kFigures = 2;
  /// This rank's first figures for the window (DeferredReduce::set_figures): the samples of its
  /// share, and `seconds` of its work, without waiting for others.
  std::vector<double> figures(double seconds) const;
  /// Whether a rank that states this had samples.
  static bool has_share(const accum::RankStatement& rank) { return rank.figures.front() > 0; }
  /// Takes what all ranks state, by rank. A window without a share() shows nothing of speeds.
  /// Throws a runtime Error, the same on all ranks, that names those that took another share than
  /// theirs.
  void observe(const std::vector<accum::RankStatement>& of_ranks);

  /// The present RankPace::seconds_per_sample.
  const std::vector<double>& seconds_per_sample(std::size_t rank) const {
    return paces_[rank].observed();
  }

 private:
  std::vector<Worker> workers() const;
  bool others_take_part(const std::vector<Worker>& now) const;
  std::string other_shares(const std::vector<accum::RankStatement>& of_ranks) const;
  std::string describe(std::int64_t units, const Division& division) const;

  std::int64_t rank_;
  std::vector<std::int64_t> micro_batches_;  ///< by rank
  /// The samples of a unit: a micro-batch, if shares consist of the undivided window's, or one.
  std::int64_t unit_ = 1;
  bool by_speed_;
  std::vector<PaceEstimate> paces_;  ///< by rank, for a sample
  std::vector<double> allowed_;      ///< by rank, the share of the time that it works
  std::vector<Worker> followed_;     ///< the ranks with the speeds that divide windows now
  std::int64_t samples_ = 0;         ///< of the last window
  std::vector<Lease> shares_;        ///< the last window's, by rank
  ReportedShares reported_;
  std::optional<std::string> change_;
  bool is_first_window_ = true;
};

}  // namespace accrue::distributed
