#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "memory/recovery.h"
#include "train/run/batch_control.h"
#include "train/run/checkpointer.h"
#include "train/run/histogram_taker.h"
#include "train/run/progress.h"
#include "train/run/run_context.h"
#include "train/run/run_window.h"
#include "train/run/step_meters.h"
#include "train/watch/divergence.h"
#include "train/watch/run_watch.h"
#include "train/window/rollback_history.h"

namespace accrue::train {

/// Takes one optimizer step of a run: fills and closes this rank's share of a window, steps the
/// optimizer with the mean gradient, and reports the results and anything suspicious to observers.
/// A window that a checkpoint interrupts (Progress::started) continues from there.
class OptimizerStep {
 public:
  /// All arguments are kept by reference. `retries` handle memory that runs out, and a copy of them
  /// does if a window is torn. `noise` is null if it is not measured. `why_windows_are_not_kept` is
  /// reported if a window is interrupted and starts again; empty: no report.
  OptimizerStep(const RunContext& run, Progress& progress, memory::Recovery& recovery,
                const WindowFlow& flow, const data::Loader& loader, Checkpointer& checkpointer,
                RunControl& control, BatchControl& batch, NoiseMeter* noise,
                std::string why_windows_are_not_kept);

  enum class Outcome {
    whole,
    stopped,    ///< a signal requested it, on any rank
    went_back,  ///< the window was torn: the run continues from the last checkpoint
  };
  Outcome take();
  /// Whether an exception left only some parameters updated, or a step that is not
  /// counted.
  bool is_half_done() const { return is_half_done_; }

 private:
  /// The samples of a step's window, and those that are this rank's.
  struct Draws {
    batch::Range all, own;
  };
  /// The optimizer's use of a window's gradient.
  struct Update {
    double lr = 0;
    std::optional<optim::RateFall> fall = {};
    std::optional<double> grad_norm = {};  ///< before clipping; none if there was no step
    double seconds = 0;
  };

  void settle_memory();
  void put_own_parameters_back();
  void begin_noise(const Draws& draws);
  WindowRequest request_of(batch::Range share, std::int64_t micro_batch);
  std::optional<WindowRun> run_unless_torn(batch::Range share, std::int64_t micro_batch);
  void report_interruption() const;
  void report_window(const WindowRun& window);
  Outcome take_with_units();
  void check_first_window(const WindowRun& window);
  void require_a_finite_loss(const WindowRun& window) const;
  /// Ends the run if its loss has diverged and the config requests that.
  void see_divergence(const WindowRun& window);
  Update update_parameters(WindowRun& window);
  std::optional<double> consume(accum::MeanGradient gradient, const Update& update);
  std::optional<double> clipped_norm(accum::MeanGradient& gradient) const;
  std::optional<NoiseReading> read_noise(WindowRun& window) const;
  void advance(batch::Range samples, WindowRun& window, const std::optional<NoiseReading>& noise);
  StepReport report_of(const WindowRun& window, const Draws& draws, const Update& update,
                       double seconds);
  std::optional<double> ended_epoch_seconds();
  std::map<std::string, double> rates_of_groups(const Update& update) const;
  void report_step(const StepReport& report, const WindowRun& window) const;
  void report_anomalies(const StepReport& report, batch::Range draws);

  const RunContext& run_;
  Progress& progress_;
  memory::Recovery& recovery_;
  WindowFlow flow_;
  Checkpointer& checkpointer_;
  RunControl& control_;
  StepMeters meters_;
  RunWatch watch_;
  Divergence divergence_;
  BatchControl& batch_;
  NoiseMeter* noise_;
  std::string why_windows_are_not_kept_;
  std::vector<optim::ParameterGroup> groups_;  ///< without their parameters
  HistogramTaker histograms_;
  RollbackHistory rollback_history_;
  bool takes_micro_statistics_;    ///< model.batchnorm = "micro", and the model has one
  bool takes_one_sample_ = false;  ///< the model was tried with a micro-batch of one sample
  bool is_half_done_ = false;
  bool looked_at_window_ = false;  ///< a window with a gradient was examined for remarks
};

}  // namespace accrue::train
