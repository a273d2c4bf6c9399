#pragma once

#include <cstdint>

#include "train/pass/window_losses.h"
#include "train/window/layered/divided_segments.h"
#include "train/window/layered/layered_window.h"
#include "train/window/layered/segment_state.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Runs a window segment by segment (LayeredWindow), with the batch normalisation of the whole
/// window if RunnerOptions::window_statistics asks for it. Offloaded state is in memory while its
/// segment runs (SegmentState), and so are parameters of which other ranks keep parts
/// (DividedSegments).
///
/// If memory runs out the window as a whole starts again (run_window()): its micro-batches
/// interleave, so that none of them can be undone alone.
class LayeredRunner final : public Runner {
 public:
  /// With the statistics of the window, throws a usage Error if the model has a batch normalisation
  /// that cannot be cut.
  explicit LayeredRunner(const RunnerContext& context, RunnerOptions options = {});
  ~LayeredRunner() override;

  Opening prepare(const WindowRequest& request) override;
  Filled fill(WindowRequest& request, WindowRun& run) override;
  Filled closed(WindowRequest& request, WindowRun& run) override;
  void undo() override;

 private:
  LayeredOptions layered_options();
  PassOptions losses_of_attempt();
  bool stops_here() const;
  void add_up(const at::Tensor& sums);
  void report_progress(std::int64_t passes_done, std::int64_t passes);
  void quarantine(const MicroRef& micro, const std::string& reason);

  RunnerContext context_;
  RunnerOptions options_;
  WindowLosses losses_;
  std::int64_t micro_batches_ = 0;  ///< of the window that runs
  std::int64_t told_ = 0;
  double reducing_seconds_ = 0;  ///< spent in add_up() in this fill, waiting included
  SegmentState segment_state_;
  DividedSegments divided_;
  LayeredWindow layered_;
};

}  // namespace accrue::train
