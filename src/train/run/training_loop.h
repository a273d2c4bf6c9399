#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "accrue/accum/window.h"
#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "data/loader.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/batch_control.h"
#include "train/run/checkpointer.h"
#include "train/run/evaluator.h"
#include "train/run/make_runner.h"
#include "train/run/optimizer_step.h"
#include "train/run/progress.h"
#include "train/run/run_context.h"

namespace accrue::train {

/// Steps, evaluations and checkpoints, until the end of the run or a signal, or until its ranks
/// change.
class TrainingLoop {
 public:
  /// `of_ranks` is a checkpoint's state of several ranks, `of_window` that of the window in the
  /// middle of which it was written; both are empty for a new run.
  TrainingLoop(const RunContext& run, TrainState state, const StoredTensors& of_ranks,
               StoredTensors of_window);

  /// Reports to observers that a run begins or continues.
  void report_start() const;
  /// Returns none if ranks are gone or others ask to join, and the run may continue with another
  /// group: in another loop that begins with state().
  std::optional<RunResult> run();

  /// Call it before run() if this rank continues with its part of a window that the former ranks
  /// had begun.
  void go_on_in(StartedWindow part) { progress_.part = done_of_window_ = std::move(part); }

  /// The present state of the run, as a checkpoint would have it.
  const TrainState& state() { return checkpointer_.present_state(); }
  /// The time since the last checkpoint, which another loop takes over.
  const Stopwatch& since_checkpoint() const { return checkpointer_.since_checkpoint(); }
  void count_from(const Stopwatch& since_checkpoint) { checkpointer_.count_from(since_checkpoint); }

  /// RunLog::unreported_step()
  const std::optional<StepReport>& unreported_step() const { return log_.unreported_step(); }
  /// Why run() returned nothing, for people.
  const std::string& why_ranks_change() const { return why_ranks_change_; }
  /// This rank's work on a window at that time; none if it no longer counts.
  std::optional<StartedWindow>& done_of_window() { return done_of_window_; }

 private:
  enum class Ended { done, stopped, before_others_join };
  Ended train();
  bool wait_for_limits();
  void keep_while_waiting();
  Error with_what_is_saved(const Error& error) const;
  bool lacks_checkpoint_to_go_back_to() const;
  void keep_loss_scale();
  void expect_folder() const;
  void look_at_metrics() const;
  void save_after_error();
  std::int64_t least_budget() const;
  memory::Retries make_retries();
  WindowKeeper make_keeper();
  std::optional<StartedWindow>* kept_of_windows();

  RunContext run_;
  std::string why_windows_are_not_kept_;  ///< empty if they are kept
  Progress progress_;
  std::string why_ranks_change_;
  std::optional<StartedWindow> done_of_window_;
  bool has_limits_ = false;  ///< on any rank
  RunLog log_;
  RunControl control_;
  memory::Recovery recovery_;
  /// The buffer must outlive its reduction.
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::unique_ptr<distributed::ParameterShards> shards_;  ///< null: each rank has all parameters
  data::Loader loader_;
  std::unique_ptr<Parallelism> parallelism_;  ///< outlives the window
  memory::Retries retries_;
  accum::Window window_;
  std::unique_ptr<NoiseMeter> noise_;               ///< null: it is not measured
  std::unique_ptr<optim::LossScaler> loss_scaler_;  ///< null: losses are not scaled
  std::unique_ptr<RecordedPass> recorded_;          ///< null: each micro-batch is run
  std::unique_ptr<Runner> runner_;
  BatchControl batch_;
  Checkpointer checkpointer_;
  Evaluator evaluator_;
  OptimizerStep step_;
};

}  // namespace accrue::train
