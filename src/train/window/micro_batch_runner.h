#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/models/trainable.h"
#include "batch/schedule.h"
#include "data/loader.h"
#include "distributed/reduce/deferred_reduce.h"
#include "optim/loss_scale.h"
#include "train/pass/buffer_snapshot.h"
#include "train/pass/forward_backward.h"
#include "train/pass/window_losses.h"
#include "train/window/memory_retries.h"

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
  std::int64_t out_of_memory = 0;  ///< times; among the retries
  double loss_scale = 1;           ///< that the window closed with
  /// Most bytes in tensors while a micro-batch ran; none where nothing meters them.
  std::optional<std::int64_t> micro_batch_peak_bytes;
  double seconds = 0;          ///< forward and backward
  double closing_seconds = 0;  ///< the gradient's norm, and the audit where it is not finite
  std::string lost_reason;     ///< empty unless the window was lost
  /// A window that is divided among ranks has it; the numbers above are then those of all ranks.
  std::optional<distributed::WindowTotals> together = {};
  std::vector<double> rank_sums = {};           ///< those of WindowHooks, of all ranks added up
  bool stop_requested = false;                  ///< on any rank
  std::vector<batch::LeftOut> left_out = {};    ///< samples that could not be read, on this rank
  std::optional<accum::MeanGradient> gradient;  ///< none where the total weight is 0 or it was lost
};

/// Micro-batches, or samples, of a window of `count` that may be left out: the fraction `limit` of
/// them rounded down, at least one; none where `limit` is 0.
std::int64_t allowed_quarantined(double limit, std::int64_t count);

/// Throws a runtime Error naming samples and reasons where more micro-batches of a window of
/// `micro_batches` are quarantined than allowed.
void require_few_quarantined(const LedgerView& ledger, double limit, std::int64_t micro_batches);

/// Throws a runtime Error with the reasons where more samples of a window of `parts` could not be
/// read than may be: the fraction `limit` of them, as allowed_quarantined().
void require_few_left_out(std::span<const batch::LeftOut> left_out, double limit,
                          std::span<const batch::Range> parts, std::int64_t window);

/// "sample 17: cat/3.png does not decode: ...; sample 29: ...".
std::string describe(std::span<const batch::LeftOut> left_out);

/// Puts what a window that just closed tells into `result`.
void take_ledger(const accum::Window& window, WindowRun& result);

struct WindowHooks {
  std::function<bool()> interrupted;  ///< asked between micro-batches
  /// Asked at the close of a window that is divided among ranks: they stop together, after it.
  std::function<bool()> stop_requested = {};
  /// What else ranks add up at the close of a window that is divided among them, as many on each.
  /// `seconds` are those of this one's forward and backward, without its waiting for the others.
  std::function<std::vector<double>(double seconds)> rank_sums = {};
  std::function<void(std::int64_t done, std::int64_t total)> on_micro_batch;
  std::function<void(const MicroRef& micro, const std::string& reason)> on_quarantine;
  /// Whether a micro-batch is to be left out untried, as an earlier attempt found it bad.
  std::function<bool(const MicroRef& micro)> known_bad;
  /// Memory ran out in this window, and what was done about it; once a window.
  std::function<void(const std::string& reason)> on_out_of_memory;
  /// What would fit, where a single sample does not.
  std::function<std::string()> memory_advice;
  /// A memory.budget that is enough for micro-batches of so many samples.
  MemoryRetries::Enough enough_budget;
};

struct RunnerOptions {
  double max_quarantined = 0.1;  ///< of a window's micro-batches, and samples (allowed_quarantined)
  /// Says what losses are multiplied with, window by window, and learns of overflows; null: 1.
  optim::LossScaler* loss_scaler = nullptr;
  /// Exact batch normalisation keeps the activations at its cuts in this folder; empty: in memory.
  std::filesystem::path cut_folder = {};
  Recompute recompute = Recompute::none;
  /// Decides what becomes of micro-batches that run out of memory, and learns of each; null: the
  /// error goes to the caller.
  memory::Recovery* recovery = nullptr;
  /// Where the window is one rank's part: sums over the ranks at its close. Null: alone.
  distributed::DeferredReduce* reduce = nullptr;
};

/// Attempts window `index` until it goes through: where memory runs out with the same `parts` once
/// more, and then with smaller ones, as `retries` decides. What is torn cannot begin anew.
using Attempt = std::function<WindowRun(std::vector<batch::Range>& parts)>;
WindowRun run_with_retries(MemoryRetries& retries, const accum::Window& window, std::int64_t index,
                           std::vector<batch::Range> parts, const Attempt& attempt);

/// Runs a window's micro-batches through a model into a gradient window.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Samples `range` in micro-batches of `micro` samples. `index` keys randomness. Throws a runtime
  /// Error naming samples and reasons where more than the allowed number of micro-batches is
  /// quarantined; the window is discarded then, as after any exception.
  virtual WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro) = 0;
};

/// Micro-batch by micro-batch, forward and backward. What is left out, or interrupted, leaves no
/// trace in the model's buffers either. Losses add up as WindowLosses says.
///
/// A micro-batch that runs out of memory is undone by the ledger and run once more; where that
/// fails too, it and those after it are split. The sums have the bits of a window that was split
/// so from the start. Where a replay runs out of memory the window begins anew.
class MicroBatchRunner final : public Runner {
 public:
  /// All are kept by reference and must outlive the runner.
  MicroBatchRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
                   std::uint64_t seed, WindowHooks hooks, RunnerOptions options = {});
  ~MicroBatchRunner() override;

  WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro) override;
  /// The same with micro-batches as `parts` says: consecutive, and not empty.
  WindowRun run(std::int64_t index, std::vector<batch::Range> parts);

 private:
  WindowRun attempt(std::int64_t index, std::vector<batch::Range>& parts);
  void run_micro_batches(std::vector<batch::Range>& parts, WindowRun& result);
  void require_few_bad(const WindowRun& result, std::span<const batch::Range> parts) const;
  bool stop_if_interrupted(WindowRun& result);
  bool run_or_undo(std::size_t position, std::vector<batch::Range>& parts, WindowRun& result);
  void undo();  ///< the micro-batch that ran out of memory
  void run_micro_batch(const MicroRef& ref, const batch::MicroBatch& micro, bool is_last);
  void split_from(std::size_t position, std::vector<batch::Range>& parts, std::int64_t micro);
  double reducing_seconds() const;
  void close(double computing_seconds, WindowRun& result);
  Loss replay(const MicroRef& ref);
  ForwardContext context_of(const batch::MicroBatch& micro) const;
  PassOptions pass_options() const;
  bool quarantine(const LedgerEntry& entry);
  std::optional<double> next_loss_scale();
  bool is_first_committed(const MicroRef& ref) const;

  models::Trainable& model_;
  accum::Window& window_;
  data::Loader& loader_;
  std::uint64_t seed_;
  WindowHooks hooks_;
  RunnerOptions options_;
  WindowLosses losses_;
  MemoryRetries retries_;
  std::int64_t micro_batches_ = 0;  ///< of the window that runs
  BufferSnapshot at_open_;          ///< the window's
  BufferSnapshot settled_;          ///< after the last micro-batch that counts
  bool replayed_ = false;           ///< since the last micro-batch began
};

}  // namespace accrue::train
