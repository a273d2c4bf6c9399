#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/optim/optimizer.h"
#include "memory/plan.h"
#include "train/pass/buffer_snapshot.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Runs micro-batches of a workload as training would, beside gradient buffer and optimizer state
/// of its own, and measures them. What it changes of the model it puts back.
class PlanTrials {
 public:
  /// `work` must outlive it. What it allocates may run out of memory (is_out_of_memory).
  explicit PlanTrials(const Workload& work);

  /// Forward and backward of the longest samples into a window that is dropped. The first run of a
  /// point has a pass before it that is not timed, and begins without memory kept for reuse; the
  /// peak of a later one counts what is kept of other points, too.
  memory::Measured run(const memory::PlanPoint& point);
  bool has_run(const memory::PlanPoint& point) const { return tried_.contains(point); }
  /// Runs a point that was run before as if it were the first time.
  memory::Measured run_afresh(const memory::PlanPoint& point);

  /// A run afresh, and then a whole step of one micro-batch with a learning rate of 0: it changes
  /// the state of the trials' own optimizer, and parameters by nothing.
  struct Step {
    memory::Measured micro;  ///< its peak is the whole step's; whether all of it fits
    /// The gradient's norm, clipping, the optimizer. None where it does not fit, where no gradient
    /// came of it, and of gradients that are folded into an optimizer's state: what a trial folds
    /// is dropped, so there is no step to measure.
    std::optional<double> closing_seconds;
  };
  Step run_step(const memory::PlanPoint& point);

  /// What is held between micro-batches. After a run low-precision copies are counted too, where
  /// the caching allocator tells.
  memory::Resident resident() const;

 private:
  template <class Work>
  memory::Measured attempt(const Work& work);
  std::vector<batch::MicroBatch> fetch(std::int64_t samples) const;
  double seconds_of_passes(const batch::MicroBatch& micro, Recompute recompute);
  double pass(const batch::MicroBatch& micro, Recompute recompute);
  double open_and_pass(const batch::MicroBatch& micro, Recompute recompute);
  std::optional<double> close_and_step();
  memory::Measured out_of_memory();

  const Workload& work_;
  BufferSnapshot buffers_;
  at::Tensor cuts_;  ///< in the place of those that a window keeps in memory; else undefined
  std::unique_ptr<optim::Optimizer> optimizer_;
  accum::Window window_;
  memory::Resident resident_;
  std::set<memory::PlanPoint> tried_;
  std::vector<std::int64_t> longest_;  ///< samples, the one with most tokens first
};

}  // namespace accrue::train
