#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/loss_totals.h"
#include "accrue/accum/window.h"
#include "accrue/batch/schedule.h"
#include "accrue/data/loader.h"
#include "accrue/models/trainable.h"
#include "accrue/optim/loss_scale.h"
#include "accrue/train/forward_backward.h"

namespace accrue::train {

/// What a window's micro-batches came to.
struct WindowRun {
  bool interrupted = false;  ///< stopped between micro-batches; the window was discarded
  double loss_sum = 0;
  double weight = 0;
  std::int64_t tokens = 0;
  std::int64_t micro_batches = 0;
  std::int64_t quarantined = 0;
  std::int64_t retries = 0;
  double loss_scale = 1;       ///< that the window closed with
  double seconds = 0;          ///< forward and backward
  double closing_seconds = 0;  ///< the gradient's norm, and the audit where it is not finite
  std::string lost_reason;     ///< empty unless the window was lost
  std::optional<accum::MeanGradient> gradient;  ///< none where the total weight is 0 or it was lost
};

/// Micro-batches of a window of `micro_batches` that may be quarantined: the fraction `limit` of
/// them rounded down, at least one; none where `limit` is 0.
std::int64_t allowed_quarantined(double limit, std::int64_t micro_batches);

/// "micro-batch 3 (samples 12 to 15)".
std::string describe(const MicroRef& micro);

/// Throws a runtime Error naming samples and reasons where more micro-batches of a window of
/// `micro_batches` are quarantined than allowed.
void require_few_quarantined(const LedgerView& ledger, double limit, std::int64_t micro_batches);

/// Puts what a window that just closed tells into `result`.
void take_ledger(const accum::Window& window, WindowRun& result);

struct WindowRunnerOptions {
  double max_quarantined = 0.1;  ///< of a window's micro-batches (allowed_quarantined)
  /// Says what losses are multiplied with, window by window, and learns of overflows; null: 1.
  optim::LossScaler* loss_scaler = nullptr;
};

/// Runs the micro-batches of a window through a model into a gradient window.
///
/// A model with several losses that all have LossHead::weight gets their means over the whole
/// window, each by its own denominator: the labels are read once before the first backward.
class WindowRunner {
 public:
  struct Hooks {
    std::function<bool()> interrupted;  ///< asked between micro-batches
    std::function<void(std::int64_t done, std::int64_t total)> on_micro_batch;
    std::function<void(const MicroRef& micro, const std::string& reason)> on_quarantine;
  };

  /// All are kept by reference and must outlive the runner.
  WindowRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
               std::uint64_t seed, Hooks hooks, WindowRunnerOptions options = {});
  ~WindowRunner();

  /// Samples `range` in micro-batches of `micro` samples. `index` keys randomness. Throws a runtime
  /// Error naming samples and reasons where more than the allowed number of micro-batches is
  /// quarantined; the window is discarded then, as after any exception.
  WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro);

 private:
  void run_micro_batches(const std::vector<batch::Range>& parts, WindowRun& result);
  void run_micro_batch(MicroRef ref, const batch::MicroBatch& micro);
  void close(WindowRun& result);
  Loss replay(const MicroRef& ref);
  PassResult pass(const batch::MicroBatch& micro);
  bool leave_out(const LedgerEntry& entry);
  std::optional<double> next_loss_scale();
  void count_weights(const std::vector<batch::Range>& parts);
  bool total_weights();
  void check_weights(const MicroRef& ref, const std::vector<double>& seen) const;

  models::Trainable& model_;
  accum::Window& window_;
  data::Loader& loader_;
  std::uint64_t seed_;
  Hooks hooks_;
  WindowRunnerOptions options_;
  std::int64_t micro_batches_ = 0;  ///< of the window that runs
  /// Of several losses with denominators of their own: each micro-batch's weights (empty where it
  /// was left out), and what they come to.
  std::vector<std::vector<double>> weights_;
  std::optional<LossTotals> totals_;
};

}  // namespace accrue::train
