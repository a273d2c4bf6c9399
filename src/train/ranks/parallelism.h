#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/step_report.h"
#include "core/notice_signal.h"
#include "train/checkpoint/train_state.h"
#include "train/ranks/rank_claims.h"
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
  /// know them; each rank runs its own in pieces as memory allows.
  virtual batch::Range share(batch::Range window) = 0;
  /// What reduces the window; null if its sums are this rank's own.
  virtual distributed::DeferredReduce* reduction() { return nullptr; }
  /// This rank's stage, if the ranks are a pipeline.
  virtual std::optional<PipelineStage> stage() const { return std::nullopt; }
  /// The ranks that close a window early to keep it in its middle; null if none do.
  virtual WindowRanks* window_ranks() { return nullptr; }
  /// Whether a rank may fill its share of a window again without the others.
  virtual bool retries_alone() const { return true; }
  /// Closes the window that was filled, with the sums of all ranks that share it; `run` becomes
  /// theirs.
  virtual void close(accum::Window& window, WindowRun& run) = 0;
  /// To be called once the window of this index is through, however often it was closed: takes in
  /// what the ranks told each other of it.
  virtual void window_done(std::int64_t index, const WindowRun& run);

  /// Takes in, by rank, which part of the time each may work, where the ranks meet between windows.
  /// Returns whether the run can go on; here all ranks are needed.
  virtual bool follow_limits(const std::vector<double>& speeds);

  /// Whether processes asked to join before the last window was closed, as all ranks know.
  virtual bool others_ask_to_join() const { return false; }

  /// Whether ranks take steps of their own, each with the loss of its own share.
  virtual bool steps_alone() const { return false; }
  /// Whether the step that ends `windows` windows of the run is followed by an outer step of all
  /// ranks, of some parameters or all.
  virtual bool takes_outer_step_after(std::int64_t windows) const;
  /// Whether the ranks' parameters differ after `windows` windows of the run: there is nothing to
  /// evaluate and nothing to keep.
  virtual bool is_within_round(std::int64_t windows) const;
  /// Whether the parameters are those that all ranks have alike, in place of this rank's own, as
  /// they may be between rounds.
  virtual bool has_set_aside() const { return false; }
  /// Puts this rank's own parameters back, to be called before share() where they were set aside.
  virtual void go_on() {}
  /// To be called after the optimizer's step, or after a window without one; `state` has taken in
  /// the window.
  virtual void after_step(TrainState& state, WindowRun& run);
  /// The last step before `step` after which evaluations and checkpoints were possible.
  virtual std::int64_t step_before(std::int64_t step) const { return step - 1; }
  /// Reports what bringing the ranks together cost in the window's step.
  virtual void report(const WindowRun& run, StepReport& report) const;

  /// What a checkpoint keeps of each rank, by rank.
  virtual std::vector<RankRecord> records() const = 0;
  /// Whether a checkpoint takes something of every rank, so that all write it together.
  virtual bool writes_together() const { return false; }
  /// Whether all ranks write a checkpoint now, where they told each other before; `due` is what
  /// this rank would say, and is told with what they exchange next. None: they are to ask the
  /// first.
  virtual std::optional<bool> agreed_to_write(bool due);
  /// Whether the first rank can write a checkpoint when the others are gone.
  virtual bool can_write_alone() const { return true; }
  /// The optimizer's whole state on the first rank, where each rank keeps a slice of it: it is
  /// brought together as it is copied. Empty if ranks keep all of it; on the other ranks it
  /// returns when that is done.
  virtual StoredTensors gather_optimizer() const;
  /// What a checkpoint holds of several ranks. All ranks call it where they write together.
  virtual NamedParameters state(TrainState& state);
  virtual void load_state(const StoredTensors& of_ranks, const TrainState& state);
  /// What is said of it at the start of a run, for people; may be empty.
  virtual std::string remark(std::int64_t micro_batches) const;
};

/// What a Parallelism is made of; all of it outlives the object.
struct ParallelismContext {
  const Config& config;
  const Ranks& ranks;
  models::Trainable& model;
  optim::Optimizer& optimizer;
  const ShardedOptimizer* sharded;  ///< `optimizer` if its state is divided among ranks, or null
  std::shared_ptr<accum::GradientBuffer> buffer;
  const data::Loader& loader;
  const TrainState& state;
  std::int64_t micro_batch;  ///< in samples; stages are balanced by it
  std::int64_t total_steps;
  RunLog& log;
  const RunControl& control;
  bool may_change = false;              ///< Ranks::may_go_on()
  const NoticeWatch* notice = nullptr;  ///< null: this rank is given none
  WeighSamples weigh = {};              ///< null: what ranks state of their weight is not looked at
};

/// Makes what the config asks for; all ranks call it.
std::unique_ptr<Parallelism> make_parallelism(const ParallelismContext& context);

}  // namespace accrue::train
