#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/models/trainable.h"
#include "batch/schedule.h"
#include "data/loader.h"
#include "distributed/reduce/deferred_reduce.h"
#include "optim/loss_scale.h"
#include "train/window/memory_retries.h"
#include "train/window/run_control.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// What a window is to be filled with, and what earlier fills of it taught. A runner may change
/// it: memory that runs out splits micro-batches, and what is found bad is kept for the next fill.
struct WindowRequest {
  /// Samples `range` in micro-batches of `samples_per_micro_batch`.
  static WindowRequest even(std::int64_t index, batch::Range range,
                            std::int64_t samples_per_micro_batch) {
    return {.index = index, .micro_batches = batch::split(range, samples_per_micro_batch)};
  }

  std::int64_t index = 0;                   ///< of the window; keys randomness
  std::vector<batch::Range> micro_batches;  ///< in order; not empty ones
  /// First samples of micro-batches that are quarantined untried, as an earlier fill found them
  /// bad.
  std::set<std::int64_t> known_bad = {};
  std::int64_t fills = 0;  ///< how often the window was filled before, since it began anew
};

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
  double own_seconds = 0;      ///< the same without waiting for other ranks
  double closing_seconds = 0;  ///< the gradient's norm, and the audit where it is not finite
  std::string lost_reason;     ///< empty unless the window was lost
  /// A window that is divided among ranks has it; the numbers above are then those of all ranks.
  std::optional<distributed::WindowTotals> together = {};
  std::vector<double> rank_sums = {};  ///< of all ranks, besides their totals
  bool stop_requested = false;         ///< on any rank
  std::vector<batch::UnreadableSample> unreadable =
      {};                                       ///< samples that could not be read, on this rank
  std::optional<accum::MeanGradient> gradient;  ///< none where the total weight is 0 or it was lost
};

/// What became of filling a window.
enum class Filled {
  whole,        ///< it is to be closed
  interrupted,  ///< stopped between micro-batches: it is to be dropped
  again,        ///< it is to be opened and filled once more, with what the request now knows
};

/// Runs a window's micro-batches through a model. It neither opens nor closes the window:
///
///   const Opening opening = runner.prepare(request);
///   window.open(request.index, opening.loss_scale, opening.total_weight);
///   runner.fill(request, run);    // else: window.discard(), runner.undo()
///   run.gradient = window.close();
///   runner.closed(request, run);
class Runner {
 public:
  struct Opening {
    double loss_scale = 1;
    std::optional<double> total_weight = {};
  };

  virtual ~Runner() = default;
  /// What the window has to be opened with; reads labels where losses need to know them ahead.
  virtual Opening prepare(const WindowRequest& request) = 0;
  /// Fills the open window, and in `run` what it is to tell besides the ledger. Throws a runtime
  /// Error naming samples and reasons where more than the allowed number is quarantined. After
  /// anything but Filled::whole, and after an exception, the window is not to be closed.
  virtual Filled fill(WindowRequest& request, WindowRun& run) = 0;
  /// To be called after the window was closed, which may have quarantined more: throws as fill()
  /// does. Says whether the window has to be filled again.
  virtual Filled closed(WindowRequest& request, WindowRun& run) = 0;
  /// Takes back what fill() did outside the window: the model's buffers, what the loader was asked.
  virtual void undo() = 0;
};

/// What every runner works with; all of it outlives the runner.
struct RunnerContext {
  models::Trainable& model;
  accum::Window& window;
  data::Loader& loader;
  std::uint64_t seed;
  RunLog& log;
  RunControl& control;
  MemoryRetries& retries;
};

struct RunnerOptions {
  double max_quarantined = 0.1;  ///< of a window's micro-batches, and samples (allowed_quarantined)
  /// Says what losses are multiplied with, window by window, and learns of overflows; null: 1. No
  /// run sets it in this version, whose precisions need none.
  optim::LossScaler* loss_scaler = nullptr;
  /// Exact batch normalisation keeps the activations at its cuts in this folder; empty: in memory.
  std::filesystem::path cut_folder = {};
  Recompute recompute = Recompute::none;
  /// Losses and weights alike are multiplied with it, by which a proof rounds anew
  /// (PassOptions::weighting); micro-batch by micro-batch only.
  double weighting = 1;
  /// Where the window is one rank's share: told of each micro-batch, as the last one's backward may
  /// be overlapped. Null: alone.
  distributed::DeferredReduce* reduce = nullptr;
};

}  // namespace accrue::train
