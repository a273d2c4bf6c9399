#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/optim/optimizer.h"
#include "distributed/reduce/parameter_shards.h"
#include "memory/plan.h"
#include "train/pass/buffer_snapshot.h"
#include "train/pass/forward_backward.h"
#include "train/plan/trial_runs.h"
#include "train/window/layered/divided_segments.h"
#include "train/window/layered/segment_state.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Runs micro-batches of a workload as training would, with its own gradient buffer and optimizer
/// state, and measures them. Restores what it changes of the model.
class PlanTrials {
 public:
  /// `work` must outlive it. Its allocations may run out of memory (is_out_of_memory).
  explicit PlanTrials(const Workload& work);

  /// Runs the longest samples forward and backward into a window that is discarded, as TrialRuns
  /// does.
  memory::Measured run(const memory::PlanPoint& point);
  bool has_run(const memory::PlanPoint& point) const { return runs_.has_run(point); }
  /// Runs a point again as if for the first time.
  memory::Measured measure_again(const memory::PlanPoint& point);

  /// Runs a point as if for the first time, and then a whole step of one micro-batch with a
  /// learning rate of 0, which changes the state of the trials' own optimizer and no parameter.
  struct Step {
    memory::Measured micro;  ///< with the whole step's peak; shows whether all of it fits
    /// Seconds of the gradient's norm, clipping and the optimizer. None if the step does not fit,
    /// if it has no gradient, if gradients are folded into an optimizer's state (a trial discards
    /// what it folds), and if ranks divide the sums, of which this rank has no whole ones.
    std::optional<double> closing_seconds;
  };
  Step run_step(const memory::PlanPoint& point);

  /// The memory held between micro-batches. After a run low-precision copies are counted too, if
  /// the caching allocator reports them.
  memory::Resident resident() const;

 private:
  /// The memory in use while a micro-batch runs.
  struct Input {
    std::vector<batch::MicroBatch> micros;  ///< the first is run
    at::Tensor decoding;                    ///< stands for the memory of images, or undefined
  };
  Input fetch(std::int64_t samples) const;
  TrialRuns::Seconds pass(const batch::MicroBatch& micro, Recompute recompute);
  TrialRuns::Seconds open_and_pass(const batch::MicroBatch& micro, Recompute recompute);
  /// This rank's memory of a divided model; null if it has all parameters.
  std::unique_ptr<distributed::ParameterShards> make_shards() const;
  void pass_layered(const batch::MicroBatch& micro, const PassOptions& options);
  std::optional<double> close_and_step();
  void undo();

  const Workload& work_;
  c10::Device device_;
  BufferSnapshot buffers_;
  at::Tensor cuts_;  ///< stands for what a window keeps in memory, or undefined
  std::unique_ptr<optim::Optimizer> optimizer_;
  at::Tensor replica_;  ///< stands for SliceReplica's, or undefined
  accum::Window window_;
  memory::Resident resident_;
  SegmentState segment_state_;
  std::unique_ptr<distributed::ParameterShards> shards_;
  DividedSegments divided_;
  TrialRuns runs_;
  std::vector<std::int64_t> longest_;  ///< samples, the one with most tokens first
};

}  // namespace accrue::train
