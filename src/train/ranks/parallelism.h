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
/// sums are added up (SharedWindows), by separate steps (LocalSteps), or as the stages of a
/// pipeline (PipelineStages). All ranks of a run have the same kind and make the same calls.
///
/// The calls of one window, in order: share(), close() after each fill, window_done(), and after
/// the optimizer's step after_step() and report().
class Parallelism {
 public:
  virtual ~Parallelism() = default;

  /// This rank's samples of `window`; may be empty. Shares are of planned sizes, so that all ranks
  /// know them; each rank runs its share in pieces as memory allows.
  virtual batch::Range share(batch::Range window) = 0;
  /// Reduces the window's sums; null if they are this rank's alone.
  virtual distributed::DeferredReduce* reduction() { return nullptr; }
  /// This rank's stage, if the ranks are a pipeline.
  virtual std::optional<PipelineStage> stage() const { return std::nullopt; }
  /// Lets ranks close a window early to save it unfinished; null if they do not.
  virtual WindowRanks* window_ranks() { return nullptr; }
  /// Whether a rank may fill its share of a window again without the others.
  virtual bool retries_locally() const { return true; }
  /// Closes the filled window, with the sums of all ranks that share it; `run` is replaced by their
  /// combined result.
  virtual void close(accum::Window& window, WindowRun& run) = 0;
  /// Call it once the window of this index is complete, however often it was closed: takes in what
  /// the ranks told each other about it.
  virtual void window_done(std::int64_t index, const WindowRun& run);

  /// Takes, by rank, the share of the time that each may work, when the ranks meet between windows.
  /// Returns whether the run can continue; this default needs all ranks.
  virtual bool follow_limits(const std::vector<double>& speeds);

  /// Whether processes asked to join before the last window was closed; the same on all ranks.
  virtual bool others_ask_to_join() const { return false; }

  /// Whether ranks take separate steps, each with the loss of its own share.
  virtual bool steps_locally() const { return false; }
  /// Whether the step that ends `windows` windows of the run is followed by an outer step of all
  /// ranks, of some or all parameters.
  virtual bool takes_outer_step_after(std::int64_t windows) const;
  /// Whether the ranks' parameters differ after `windows` windows of the run: then nothing is
  /// evaluated or saved.
  virtual bool is_within_round(std::int64_t windows) const;
  /// Whether the model has the parameters that all ranks share in place of this rank's own, as it
  /// may between rounds.
  virtual bool has_set_aside() const { return false; }
  /// Restores this rank's own parameters if they were set aside; call it before share().
  virtual void go_on() {}
  /// Call it after the optimizer's step, or after a window without one, when `state` includes the
  /// window.
  virtual void after_step(TrainState& state, WindowRun& run);
  /// The last step before `step` after which evaluations and checkpoints were possible.
  virtual std::int64_t step_before(std::int64_t step) const { return step - 1; }
  /// Reports the cost of communication between the ranks in the window's step.
  virtual void report(const WindowRun& run, StepReport& report) const;

  /// The values that a checkpoint keeps for each rank, by rank.
  virtual std::vector<RankRecord> records() const = 0;
  /// Whether a checkpoint contains state of every rank, so that all write it together.
  virtual bool writes_together() const { return false; }
  /// Whether all ranks write a checkpoint now, if they agreed on that before. `due` is this
  /// rank's wish, and is sent with their next exchange. None: the first rank has to be
  /// asked.
  virtual std::optional<bool> agreed_to_write(bool due);
  /// Whether the first rank can write a checkpoint when the others are gone.
  virtual bool can_write_alone() const { return true; }
  /// The optimizer's whole state on the first rank, if each rank keeps a slice of it: it is
  /// gathered as it is copied. Empty if ranks keep all of it. On the other ranks it returns when
  /// that is done.
  virtual StoredTensors gather_optimizer() const;
  /// The same for the model: its tensors in files, if each rank keeps a part of the parameters.
  /// Call it before gather_optimizer(). Throws a runtime Error, on all ranks, if a parameter is not
  /// finite.
  virtual StoredTensors gather_model(const NamedParameters& file_tensors) const;
  /// A checkpoint's state of several ranks. Collective if they write together.
  virtual NamedParameters state(TrainState& state);
  virtual void load_state(const StoredTensors& of_ranks, const TrainState& state);
  /// A remark about it for the start of a run, for people; may be empty.
  virtual std::string remark(std::int64_t micro_batches) const;
};

/// The arguments from which a Parallelism is made; all of them outlive it.
struct ParallelismContext {
  const Config& config;
  const Ranks& ranks;
  models::Trainable& model;
  optim::Optimizer& optimizer;
  const ShardedOptimizer* sharded;  ///< `optimizer` if its state is divided among ranks, or null
  std::shared_ptr<accum::GradientBuffer> buffer;
  distributed::ParameterShards* shards = nullptr;  ///< null: each rank has all parameters
  const data::Loader& loader;
  const TrainState& state;
  std::int64_t micro_batch;  ///< in samples; stages are balanced by it
  std::int64_t total_steps;
  RunLog& log;
  const RunControl& control;
  bool may_change = false;              ///< Ranks::may_go_on()
  const NoticeWatch* notice = nullptr;  ///< null: this rank watches for no notice
  WeighSamples weigh = {};              ///< null: the weights that ranks state are not checked
};

/// Makes the kind that the config states. Collective.
std::unique_ptr<Parallelism> make_parallelism(const ParallelismContext& context);

}  // namespace accrue::train
