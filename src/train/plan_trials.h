#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/memory/plan.h"
#include "accrue/optim/optimizer.h"
#include "accrue/train/workload.h"
#include "kept_buffers.h"

namespace accrue::train {

/// Runs micro-batches of a workload as training would, beside gradient buffer and optimizer state
/// of its own, and measures them. What it changes of the model it puts back.
class PlanTrials {
 public:
  /// `work` must outlive it. What it allocates may run out of memory (is_out_of_memory).
  explicit PlanTrials(const Workload& work);

  /// Forward and backward of the longest samples into a window that is dropped, several times: the
  /// least time, as others' work on the machine only adds to it.
  memory::Measured run(const memory::PlanPoint& point);

  /// A whole step of one micro-batch. Changes the optimizer's state, and parameters by nothing.
  struct Step {
    memory::Measured micro;      ///< its peak is the whole step's
    double closing_seconds = 0;  ///< the gradient's norm, clipping, the optimizer
  };
  Step run_step(const memory::PlanPoint& point);

  const memory::Resident& resident() const { return resident_; }

 private:
  std::vector<batch::MicroBatch> fetch(std::int64_t samples) const;
  double repeat_passes(const batch::MicroBatch& micro, Recompute recompute);
  double pass(const batch::MicroBatch& micro, Recompute recompute);
  double open_and_pass(const batch::MicroBatch& micro, Recompute recompute);
  double close_and_step();
  memory::Measured out_of_memory();

  const Workload& work_;
  KeptBuffers buffers_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  bool folds_;  ///< gradients go into the optimizer's state
  accum::Window window_;
  memory::Resident resident_;
  std::vector<std::int64_t> longest_;  ///< samples, the one with most tokens first
};

}  // namespace accrue::train
