#pragma once

#include <cstdint>

#include "train/pass/buffer_snapshot.h"
#include "train/pass/window_losses.h"
#include "train/window/exact/exact_window.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Runs models whose batch normalisation spans the whole window (model.batchnorm = "exact").
class ExactRunner final : public Runner {
 public:
  /// Throws a usage Error if the model has a batch normalisation that cannot be cut.
  explicit ExactRunner(const RunnerContext& context, RunnerOptions options = {});
  ~ExactRunner() override;

  Opening prepare(const WindowRequest& request) override;
  Filled fill(WindowRequest& request, WindowRun& run) override;
  Filled closed(WindowRequest& request, WindowRun& run) override;
  void undo() override;

 private:
  ExactOptions exact_options();
  PassOptions losses_of_attempt();
  bool stops_here() const;
  void add_up(const at::Tensor& sums);
  void report_progress(std::int64_t passes_done, std::int64_t passes);
  void quarantine(const MicroRef& micro, const std::string& reason);

  RunnerContext context_;
  RunnerOptions options_;
  WindowLosses losses_;
  BufferSnapshot at_open_;          ///< when the window was opened
  std::int64_t micro_batches_ = 0;  ///< of the window that runs
  std::int64_t told_ = 0;
  double reducing_seconds_ = 0;  ///< spent in add_up() in this fill, waiting included
  ExactWindow exact_;
};

}  // namespace accrue::train
