#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/clock.h"
#include "train/pass/buffer_snapshot.h"
#include "train/pass/forward_backward.h"
#include "train/pass/window_losses.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Runs a window micro-batch by micro-batch, forward and backward. A quarantined or interrupted
/// micro-batch does not affect the model's buffers either. Losses add up as in WindowLosses.
///
/// A micro-batch that runs out of memory is undone by the ledger and run once more; if that fails
/// too, it and those after it are split. The sums have the bits of a window that was split that way
/// from the start. If a replay runs out of memory the window is lost, and starts again.
///
/// Between two micro-batches the window may be saved in its middle (WindowKeeper), if the run stops
/// or a checkpoint is due. It continues from there to the same bits. Ranks that share it close it
/// early for that (WindowRanks).
class MicroBatchRunner final : public Runner {
 public:
  explicit MicroBatchRunner(const RunnerContext& context, RunnerOptions options = {});
  ~MicroBatchRunner() override;

  Opening prepare(const WindowRequest& request) override;
  Filled fill(WindowRequest& request, WindowRun& run) override;
  Filled closed(WindowRequest& request, WindowRun& run) override;
  void undo() override;
  std::optional<StartedWindow> completed_part(const WindowRequest& request,
                                              const WindowRun& run) const override;

 private:
  Filled run_micro_batches(WindowRequest& request, WindowRun& run);
  void require_few_bad(const WindowRequest& request, const WindowRun& run) const;
  bool stops_here() const;
  void take_up(const WindowRequest& request, WindowRun& run);
  StartedWindow started_window(const WindowRequest& request, const WindowRun& run) const;
  bool is_to_be_kept(bool stops, const WindowRun& run) const;
  bool closes_early(const WindowRun& run) const;
  void leave(std::size_t position, const WindowRequest& request, WindowRun& run);
  Filled keep_with_others(WindowRequest& request, WindowRun& run);
  void settle_buffers();
  void keep(const WindowRequest& request, WindowRun& run);
  WindowMiddle middle_of(const WindowRequest& request, const WindowRun& run) const;
  double seconds_so_far(const WindowRun& run) const;
  double waited_seconds() const { return context_.control.waited_seconds() - waited_before_; }
  bool run_or_undo(std::size_t position, WindowRequest& request, WindowRun& run);
  void undo_micro_batch();
  void settle_losses(WindowRun& run);
  void run_micro_batch(const MicroRef& ref, const batch::MicroBatch& micro,
                       const WindowRequest& request, WindowRun& run);
  void split_from(std::size_t position, std::vector<batch::Range>& micro_batches,
                  std::int64_t micro);
  /// Seconds of the backward passes spent in reductions that began in them.
  double reducing_seconds() const {
    return options_.reduce == nullptr ? 0 : options_.reduce->seconds_in_backward();
  }
  void share_losses();
  void report_recordings();
  bool shows_noise(const MicroRef& ref, bool is_last) const;
  Loss replay(const MicroRef& ref);
  ForwardContext context_of(const batch::MicroBatch& micro) const;
  PassOptions pass_options() const;
  bool quarantine(const LedgerEntry& entry);
  void report_quarantined(const LedgerEntry& quarantined) const;
  std::optional<double> next_loss_scale();
  bool is_first_committed(const MicroRef& ref) const;
  WindowLosses::Fetch fetch() const;

  RunnerContext context_;
  RunnerOptions options_;
  WindowLosses losses_;
  BufferSnapshot at_open_;  ///< when the window was opened
  BufferSnapshot settled_;  ///< after the last micro-batch that counts
  bool replayed_ = false;   ///< since the last micro-batch began
  Stopwatch filling_;
  double filled_before_ = 0;    ///< seconds that the window took before ranks closed it early
  double keeping_seconds_ = 0;  ///< of `filling_`, for saving windows in their middle
  double waited_before_ = 0;    ///< RunControl::waited_seconds() when the filling began
  /// A micro-batch of the window whose losses are still on a device.
  struct Unread {
    std::int64_t index;
    at::Tensor sums;  ///< by head that was run
    HeadSums heads;
    double seconds = 0;  ///< until its work was submitted
  };
  std::vector<Unread> unread_;
  /// The ranks' combined losses in the window that they share, from its first prepare() to
  /// closed(): for a window that this rank fills once more they are the same.
  std::optional<std::vector<double>> losses_of_all_;
};

}  // namespace accrue::train
