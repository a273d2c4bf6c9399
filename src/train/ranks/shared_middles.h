#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "train/ranks/ranks.h"
#include "train/window/window_ranks.h"

namespace accrue::train {

/// How the ranks of a run save windows that they share before these are complete. All ranks close a
/// window together, so all count the closes alike: a rank that wants the next close to be early
/// announces its number, and a request that arrives too late names a close that is over.
class SharedMiddles final : public WindowRanks {
 public:
  /// `records` by rank; `ranks` is kept by reference.
  SharedMiddles(const Ranks& ranks, std::vector<RankRecord> records)
      : ranks_(ranks), records_(std::move(records)) {}

  /// Sets how much of the time each rank may work, by rank (RunControl::allowed_speed).
  void limit(std::vector<double> allowed) { allowed_ = std::move(allowed); }
  /// Call it when a window begins; `window` are all its samples.
  void begin(batch::Range window) { window_ = window; }
  /// Call it when ranks have closed a window, early or not; `of_ranks` are their statements.
  void closed(const std::vector<accum::RankStatement>& of_ranks);

  bool close_early(bool wishes) override;
  WindowMiddle gather_middle(const WindowMiddle& mine) override;
  bool is_first() const override { return ranks_.is_first(); }
  WindowMiddle part_of(const WindowMiddle& all) const override;

 private:
  const Ranks& ranks_;
  std::vector<RankRecord> records_;
  batch::Range window_;
  std::vector<double> allowed_;  ///< by rank; empty: all work
  std::int64_t closes_ = 0;
  std::vector<double> weights_;  ///< of the last close, by rank
};

}  // namespace accrue::train
