#pragma once

#include <memory>
#include <optional>

#include "accrue/accum/window.h"
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

/// Steps, evaluations and checkpoints, until the end of the run or a signal.
class TrainingLoop {
 public:
  /// `of_ranks` is what a checkpoint holds of several ranks; empty for a new run.
  TrainingLoop(const RunContext& run, TrainState state, const StoredTensors& of_ranks);

  RunResult run();

 private:
  bool train();
  void keep_loss_scale();
  void expect_folder() const;
  void save_what_was_done() noexcept;
  memory::Retries make_retries();

  RunContext run_;
  Progress progress_;
  RunLog log_;
  RunControl control_;
  memory::Recovery recovery_;
  /// The buffer outlives what reduces it.
  std::shared_ptr<accum::GradientBuffer> buffer_;
  data::Loader loader_;
  std::unique_ptr<Parallelism> parallelism_;  ///< outlives the window
  memory::Retries retries_;
  accum::Window window_;
  std::unique_ptr<NoiseMeter> noise_;               ///< null: nobody measures it
  std::unique_ptr<optim::LossScaler> loss_scaler_;  ///< null: losses are not scaled
  std::unique_ptr<Runner> runner_;
  BatchControl batch_;
  Checkpointer checkpointer_;
  Evaluator evaluator_;
  OptimizerStep step_;
};

}  // namespace accrue::train
