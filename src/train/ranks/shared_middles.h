#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "train/ranks/ranks.h"
#include "train/window/window_ranks.h"

namespace accrue::train {

/// How the ranks of a run keep the windows that they share. Windows are closed by all of them, so
/// all count alike how often that was: who wishes that the next time be early announces its number,
/// and a wish that comes too late is for a close that is over.
class SharedMiddles final : public WindowRanks {
 public:
  /// `records` by rank; `ranks` is kept by reference.
  SharedMiddles(const Ranks& ranks, std::vector<RankRecord> records)
      : ranks_(ranks), records_(std::move(records)) {}

  /// From now on each rank may work so much of the time, by rank (RunControl::allowed_speed).
  void limit(std::vector<double> allowed) { allowed_ = std::move(allowed); }
  /// To be called as a window begins, of which `window` are all samples.
  void begin(batch::Range window) { window_ = window; }
  /// To be called when ranks have closed a window, early or not; `of_ranks` is what they state.
  void closed(const std::vector<accum::RankStatement>& of_ranks);

  bool close_early(bool wishes) override;
  WindowMiddle bring_together(const WindowMiddle& mine) override;
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
