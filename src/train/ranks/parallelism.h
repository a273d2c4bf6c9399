#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/step_report.h"
#include "train/checkpoint/train_state.h"
#include "train/ranks/ranks.h"
#include "train/window/run_control.h"
#include "train/window/run_log.h"
#include "train/window/runner.h"

namespace accrue::train {

/// How the processes of a run work on its windows together: alone, by shares of each window whose
/// sums are added up (SharedWindows), by steps of their own (LocalSteps), or as the stages of a
/// pipeline (PipelineStages). All ranks of a run have the same kind and make the same calls.
///
/// The calls of one window, in order: share(), close() after each fill, window_done(), and after
/// the optimizer's step after_step() and report().
class Parallelism {
 public:
  virtual ~Parallelism() = default;

  /// This rank's samples of `window`; may be empty. Shares are of planned sizes, so that all ranks
  /// know them; each runs its own in pieces as memory allows.
  virtual batch::Range share(batch::Range window) = 0;
  /// What the window is reduced by; null where its sums are this rank's own.
  virtual distributed::DeferredReduce* reduction() { return nullptr; }
  /// This rank's stage, of a pipeline.
  virtual std::optional<PipelineStage> stage() const { return std::nullopt; }
  /// Whether a rank may fill its share of a window again without the others.
  virtual bool retries_alone() const { return true; }
  /// Closes the window that was filled, with the sums of all ranks that share it; `run` becomes
  /// theirs.
  virtual void close(accum::Window& window, WindowRun& run) = 0;
  /// To be called once the window of this index is through, however often it was closed: takes in
  /// what the ranks told each other of it.
  virtual void window_done(std::int64_t index, const WindowRun& run);

  /// Whether ranks take steps of their own, each with the loss of its own share.
  virtual bool steps_alone() const { return false; }
  /// Whether the step after `windows` of the run is followed by one that changes the parameters
  /// of all ranks.
  virtual bool ends_round(std::int64_t windows) const;
  /// Whether the ranks' parameters differ after `windows` of the run: there is nothing to evaluate
  /// and nothing to keep.
  virtual bool is_within_round(std::int64_t windows) const;
  /// After the optimizer's step, or where a window had none; `state` has taken in the window.
  virtual void after_step(TrainState& state, WindowRun& run);
  /// The step before `step` after which evaluations and checkpoints were possible last.
  virtual std::int64_t step_before(std::int64_t step) const { return step - 1; }
  /// What the window's step cost to bring the ranks together.
  virtual void report(const WindowRun& run, StepReport& report) const;

  /// By rank, as a checkpoint keeps them.
  virtual std::vector<RankRecord> records() const = 0;
  /// Whether a checkpoint holds what all ranks have to give for it, so that all write it together.
  virtual bool writes_together() const { return false; }
  /// Whether the first rank can write one when the others are gone.
  virtual bool can_write_alone() const { return true; }
  /// On the first rank the optimizer's whole state, where each rank keeps a part of it: brought
  /// together as it is copied. Else nothing; on the others it returns when that is done.
  virtual StoredTensors gather_optimizer() const;
  /// What a checkpoint holds of several ranks. All ranks call it where they write together.
  virtual NamedParameters state(TrainState& state);
  virtual void load_state(const StoredTensors& of_ranks, const TrainState& state);
  /// For the start of a run, for people; else empty.
  virtual std::string remark(std::int64_t micro_batches) const;
};

/// What a Parallelism is made of; all of it outlives the object.
struct ParallelismContext {
  const Config& config;
  const Ranks& ranks;
  models::Trainable& model;
  optim::Optimizer& optimizer;
  const ShardedOptimizer* sharded;  ///< the same; null where its state is not divided among ranks
  std::shared_ptr<accum::GradientBuffer> buffer;
  const data::Loader& loader;
  const TrainState& state;
  std::int64_t micro_batch;  ///< samples, by which stages are balanced
  std::int64_t total_steps;
  RunLog& log;
  const RunControl& control;
};

/// The one that the config asks for. On all ranks.
std::unique_ptr<Parallelism> make_parallelism(const ParallelismContext& context);

}  // namespace accrue::train
