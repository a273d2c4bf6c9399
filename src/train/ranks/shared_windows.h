#pragma once

#include "train/ranks/rank_claims.h"
#include "train/ranks/shared_middles.h"
#include "train/ranks/summed_windows.h"
#include "train/window/window_leases.h"

namespace accrue::train {

/// Ranks that share the micro-batches of each window, by their speeds or equally.
class SharedWindows final : public SummedWindows {
 public:
  explicit SharedWindows(const ParallelismContext& context);

  batch::Range share(batch::Range window) override;
  WindowRanks* window_ranks() override { return &middles_; }
  void close(accum::Window& window, WindowRun& run) override;
  /// A rank that may not work leaves its share to the others, if shares follow speeds and the ranks
  /// do not run their passes together.
  bool follow_limits(const std::vector<double>& speeds) override;
  /// Ranks in layered order begin each attempt of a window together.
  bool retries_locally() const override { return !is_layered_; }
  void window_done(std::int64_t index, const WindowRun& run) override;
  void report(const WindowRun& run, StepReport& report) const override;
  std::vector<RankRecord> records() const override { return leases_.records(); }

 private:
  std::vector<double> figures(const WindowRun& run) const override;
  void check_claims(std::int64_t index) const;

  WindowLeases leases_;
  RankClaims claims_;
  SharedMiddles middles_;
  bool was_closed_early_ = false;  ///< the current window
  bool is_layered_;
  bool follows_speed_;
};

}  // namespace accrue::train
