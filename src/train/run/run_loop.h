#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/core/observer.h"
#include "accrue/memory/budget.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/trainer.h"
#include "data/loader.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/run_claim.h"
#include "train/ranks/local_rounds.h"
#include "train/ranks/rank_events.h"
#include "train/ranks/ranks.h"
#include "train/run/cadence.h"
#include "train/run/make_runner.h"
#include "train/run/signals.h"
#include "train/window/pipeline/pipeline_report.h"
#include "train/window/rollback_history.h"
#include "train/window/window_leases.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// What a run works on; all of it outlives the loop.
struct RunContext {
  const Workload& work;
  const RunPlan& plan;
  optim::Optimizer& optimizer;
  ShardedOptimizer* sharded;  ///< the same; null where its state is not divided among ranks
  const RunDirectory& directory;
  const std::vector<std::shared_ptr<Observer>>& observers;
  const Trainer::GradientHook& gradient_hook;
  memory::BudgetWatch& budget_watch;
  const Ranks& ranks;
  const SignalWatch& signals;
  const RunClaim* claim;  ///< null but on the first rank
};

/// The training loop: windows, steps, evaluations, checkpoints, until the end or a signal.
class RunLoop {
 public:
  /// `of_ranks` is what a checkpoint holds of several ranks; empty of a new run.
  RunLoop(const RunContext& parts, TrainState state, const StoredTensors& of_ranks);

  RunResult run();

 private:
  WindowHooks hooks();
  /// A memory.budget with which micro-batches of so many samples run as planned.
  std::optional<std::int64_t> enough_for(std::int64_t samples) const;
  batch::Range lease(batch::Range window);
  void tell_event(const std::string& name, const std::string& reason);
  void tell_event_after(const std::string& name, const std::string& reason);
  void report_event(const std::string& name, const std::string& reason);
  std::vector<double> rank_sums(double seconds) const;
  void take_rank_sums(const WindowRun& window);
  enum class Ran { whole, interrupted, went_back };
  Ran run_window();
  std::optional<WindowRun> run_unless_torn(batch::Range range, std::int64_t micro_batch);
  void go_back(const std::string& reason);
  void save_what_was_done();          ///< after an error: the parameters are those of the last step
  std::string what_is_saved() const;  ///< for who lost a rank: where a resume begins
  std::optional<double> take_step(accum::MeanGradient gradient, double lr);
  std::optional<double> clipped_norm(accum::MeanGradient& gradient) const;
  StepReport report_of(const WindowRun& window, double seconds);
  void tell_step(const StepReport& report, const WindowRun& window);
  void follow_budget();
  void settle_memory();
  void grow_if_quiet(const WindowRun& window);
  bool evaluate_if_due(bool last);  ///< false: interrupted
  std::optional<Evaluation> evaluate();
  void checkpoint_if_due(bool last);
  void write();                                  ///< of all ranks, together
  void begin_writing(NamedParameters of_ranks);  ///< the next step waits for it
  bool writes_together() const;
  bool is_within_round() const;  ///< ranks' parameters differ
  std::int64_t asked_before() const;
  std::optional<LocalRounds::End> local_step_done(WindowRun& window);
  NamedParameters state_of_ranks();
  void load_state_of_ranks(const StoredTensors& of_ranks);
  void finish_writing();
  void take_evaluation(const Evaluation& evaluation);
  void note_best(double eval_loss);
  void tell(const std::function<void(Observer&)>& notify);

  RunContext parts_;
  const Config& config_;
  models::Model& model_;
  TrainState state_;
  double elapsed_before_;
  optim::LearningRate learning_rate_;
  std::optional<LocalRounds> rounds_;  ///< where ranks step alone
  memory::Recovery recovery_;
  bool budget_was_raised_ = false;  ///< since micro-batches were last given a size
  RollbackHistory rollback_history_;
  WindowLeases leases_;
  RankEvents rank_events_;
  std::optional<PipelineReport> pipeline_;               ///< where ranks are the stages of one
  std::unique_ptr<distributed::DeferredReduce> reduce_;  ///< outlives the window; null where alone
  accum::Window window_;
  data::Loader loader_;
  std::unique_ptr<Runner> runner_;
  Cadence checkpoint_cadence_;
  std::optional<Cadence> eval_cadence_;
  Stopwatch watch_;
  std::optional<double> last_loss_;
  CheckpointWriter writer_;
  std::int64_t written_step_ = -1;  ///< of the newest checkpoint written (or begun) by this loop
  bool takes_micro_statistics_ = false;  ///< model.batchnorm = "micro", and there is one
  bool in_optimizer_step_ = false;       ///< some parameters may be updated and others not
};

}  // namespace accrue::train
