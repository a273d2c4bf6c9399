#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/core/observer.h"
#include "accrue/data/loader.h"
#include "accrue/memory/budget.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/trainer.h"
#include "accrue/train/workload.h"
#include "cadence.h"
#include "checkpoint.h"
#include "checkpoint_writer.h"
#include "exact_runner.h"
#include "ranks.h"
#include "signals.h"
#include "torn_windows.h"

namespace accrue::train {

/// What a run works on; all of it outlives the loop.
struct RunParts {
  const Workload& work;
  const RunPlan& plan;
  optim::Optimizer& optimizer;
  const RunDirectory& directory;
  const std::vector<std::shared_ptr<Observer>>& observers;
  const Trainer::GradientHook& gradient_hook;
  memory::BudgetWatch& budget_watch;
  const Ranks& ranks;
};

/// The training loop: windows, steps, evaluations, checkpoints, until the end or a signal.
class RunLoop {
 public:
  RunLoop(const RunParts& parts, TrainState state);

  RunResult run();

 private:
  WindowHooks hooks();
  std::string in_the_data(const MicroRef& micro) const;
  void tell_event(const std::string& name, const std::string& reason);
  enum class Ran { whole, interrupted, went_back };
  Ran run_window();
  std::optional<WindowRun> run_unless_torn(batch::Range range, std::int64_t micro_batch);
  void go_back(const std::string& reason);
  void save_what_was_done();  ///< after an error: the parameters are those of the last step
  std::optional<double> take_step(accum::MeanGradient gradient, double lr);
  std::optional<double> clipped_norm(accum::MeanGradient& gradient) const;
  StepReport report_of(const WindowRun& window, double seconds);
  void tell_step(const StepReport& report, const WindowRun& window);
  void follow_budget();
  void grow_if_quiet(const WindowRun& window);
  bool evaluate_if_due(bool last);  ///< false: interrupted
  std::optional<Evaluation> evaluate();
  void checkpoint_if_due(bool last);
  void write();  ///< begins to; the next step waits for it
  void finish_writing();
  void note_best(double eval_loss);
  template <class Notify>
  void tell(Notify&& notify);

  RunParts parts_;
  const Config& config_;
  models::Model& model_;
  TrainState state_;
  double elapsed_before_;
  optim::LearningRate learning_rate_;
  SignalWatch signals_;
  memory::Recovery recovery_;
  TornWindows torn_windows_;
  std::unique_ptr<dist::DeferredReduce> reduce_;  ///< outlives the window; null where alone
  accum::Window window_;
  data::Loader loader_;
  std::unique_ptr<Runner> runner_;
  Cadence checkpoint_cadence_;
  std::optional<Cadence> eval_cadence_;
  Stopwatch watch_;
  std::optional<double> last_loss_, last_eval_;
  CheckpointWriter writer_;
  std::int64_t written_step_ = -1;  ///< of the newest checkpoint written (or begun) by this loop
  std::int64_t evaluated_step_ = -1;
  bool takes_micro_statistics_ = false;  ///< model.batchnorm = "micro", and there is one
  bool in_optimizer_step_ = false;       ///< some parameters may be updated and others not
};

}  // namespace accrue::train
