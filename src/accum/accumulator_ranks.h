#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/accumulator.h"

namespace accrue {

/// An accumulator's part in the windows that it shares with other ranks.
class Accumulator::Ranks {
 public:
  /// All ranks must construct it alike. `own` is kept by reference; its window is reduced over all.
  Ranks(Accumulator& own, accum::RankGroup& group);

  void begin_window();
  /// Throws a usage Error if the window's last micro-batch was already committed, so that its sums
  /// may be in transit.
  void require_room() const;
  void begin_backward(bool is_last) { sums_->begin_micro_batch(is_last); }
  /// Records a committed micro-batch of `samples` (0 if another unit is counted).
  void committed(double samples, bool is_last);

  RankSlice place() const { return sums_->place(); }
  accum::WindowShare share(std::int64_t size) { return sums_->share(size); }
  /// The sum of what all ranks expect, each from its own micro-batches.
  LossTotals expect(const LossTotals& mine);
  /// Joins the windows of the others until no rank has micro-batches left.
  StepReport finish(const StepFunction& take_step);
  void fail(const char* reason) noexcept { sums_->fail(reason); }

  /// The totals over all ranks of the last closed window.
  const accum::WindowTotals& totals() const { return sums_->totals(); }
  double units() const { return rank_totals_.units; }
  void report(StepReport& report) const;
  /// The mean over the ranks that have one; nothing if none has.
  std::optional<adapt::NoiseSample> noise_part() const;

 private:
  using Figures = accum::SharedSums::Figures;
  struct RankTotals {
    double units = 0;
    std::vector<std::int64_t> samples;  ///< by rank
    bool all_finish = false;
    double parts = 0;  ///< number of ranks whose first micro-batch is in these sums
    adapt::NoiseSample part_sums;
  };

  Figures figures() const;
  void take_figures(const std::vector<Figures>& by_rank);
  Figures loss_weights() const;
  bool take_loss_weights(const std::vector<double>& sums);

  Accumulator& own_;
  std::unique_ptr<accum::SharedSums> sums_;
  double samples_ = 0;  ///< counted in the open window, of this rank
  std::vector<double>
      left_out_;  ///< by loss, the quarantined weights that were subtracted from the losses' totals
  RankTotals rank_totals_;
  bool is_complete_ = false;   ///< the window's last micro-batch is committed
  bool is_finishing_ = false;  ///< this rank has no further micro-batches
};

}  // namespace accrue
