#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/models/trainable.h"
#include "batch/schedule.h"
#include "data/loader.h"
#include "distributed/reduce/deferred_reduce.h"
#include "memory/retries.h"
#include "optim/loss_scale.h"
#include "train/window/run_control.h"
#include "train/window/run_log.h"
#include "train/window/started_window.h"

namespace accrue::train {

/// What a window is to be filled with, and what earlier fills of it taught. A runner may change it:
/// memory that runs out splits micro-batches, and what was quarantined is kept for the next fill.
struct WindowRequest {
  /// A request for samples `range` in micro-batches of `samples_per_micro_batch`.
  static WindowRequest even(std::int64_t index, batch::Range range,
                            std::int64_t samples_per_micro_batch) {
    return {.index = index, .micro_batches = batch::split(range, samples_per_micro_batch)};
  }

  std::int64_t index = 0;                   ///< the window's, which keys randomness
  std::vector<batch::Range> micro_batches;  ///< in order; none is empty
  /// First samples of micro-batches that are quarantined untried, since an earlier fill quarantined
  /// them.
  std::set<std::int64_t> to_quarantine = {};
  std::int64_t fills = 0;  ///< fills of this window before this one (Filled::again)
  /// Set if the window goes on behind what is done of it, which its first micro-batches are. The
  /// others need not follow them, nor each other.
  std::optional<StartedWindow> started = {};
  bool went_on = false;  ///< whether go_on_from() gave it its micro-batches
  /// Whether this process did what is done, so that its observers know what was quarantined.
  bool was_told = false;

  /// Has the window go on behind what is done of it. What is left keeps its micro-batches, unless
  /// memory now takes another size, `micro_batch` samples, than it did then.
  void go_on_from(StartedWindow from, std::int64_t micro_batch);
};

/// What a window's micro-batches came to.
struct WindowRun {
  bool interrupted = false;  ///< stopped between micro-batches; the window was discarded
  /// Samples of this rank's share that it has not run, since the ranks close the window early.
  std::int64_t left = 0;
  double loss_sum = 0;
  double weight = 0;
  std::map<std::string, double> losses = {};  ///< each loss's own mean, if there are several
  std::int64_t tokens = 0;
  std::int64_t micro_batches = 0;
  std::int64_t quarantined = 0;
  std::int64_t retries = 0;
  std::int64_t out_of_memory = 0;  ///< how often memory ran out; counted in the retries
  double loss_scale = 1;           ///< with which the window closed
  /// Most bytes in tensors while a micro-batch ran; none if nothing meters them.
  std::optional<std::int64_t> micro_batch_peak_bytes;
  double seconds = 0;          ///< forward and backward
  double earlier_seconds = 0;  ///< of them, those before the window was kept in its middle
  bool went_on = false;        ///< WindowRequest::went_on: its samples may be any of the window
  /// How long each committed micro-batch took, without reductions that overlapped; empty if
  /// micro-batches interleave (exact batch normalisation, a pipeline).
  std::vector<double> micro_batch_seconds = {};
  double own_seconds = 0;      ///< `seconds` without waiting for other ranks
  double closing_seconds = 0;  ///< the gradient's norm, and the audit if it is not finite
  std::string lost_reason;     ///< empty unless the window was lost
  /// Set for a window that is divided among ranks; the numbers above are then those of all ranks.
  std::optional<distributed::WindowTotals> together = {};
  std::vector<double> rank_sums = {};  ///< added up over ranks, besides their totals
  /// NoiseMeter::sums(), added up over ranks; empty if noise is not measured.
  std::vector<double> noise_sums = {};
  bool stop_requested = false;        ///< on any rank
  bool checkpoint_requested = false;  ///< on any of several ranks, by a notice
  std::vector<batch::UnreadableSample> unreadable =
      {};                                       ///< samples that could not be read, on this rank
  std::optional<accum::MeanGradient> gradient;  ///< none if the weight is 0 or the window was lost
};

class NoiseMeter;
class RecordedPass;

/// What became of filling a window.
enum class Filled {
  whole,        ///< it is to be closed
  interrupted,  ///< stopped between micro-batches: it is to be dropped
  again,        ///< it is to be opened and filled once more, with what the request now knows
  goes_on,  ///< ranks closed it early: it is to be filled with what is left, as the request says
};

/// Runs a window's micro-batches through a model. It neither opens nor closes the window:
///
///   const Opening opening = runner.prepare(request);
///   window.open(request.index, opening.loss_scale, opening.total_weight);
///   runner.fill(request, run);    // else: window.discard(), runner.undo()
///   run.gradient = window.close();
///   runner.closed(request, run);
///
/// After Filled::goes_on the window is filled with the rest in the same way, but for open(): it is
/// open on the rank that goes on with the sums of all, and loaded on the others.
class Runner {
 public:
  struct Opening {
    double loss_scale = 1;
    std::optional<double> total_weight = {};
  };

  virtual ~Runner() = default;
  /// What the window has to be opened with; reads labels where losses need to know them ahead.
  virtual Opening prepare(const WindowRequest& request) = 0;
  /// Fills the open window, and puts into `run` what it has to tell besides the ledger. Throws a
  /// runtime Error naming samples and reasons if more than the allowed number is quarantined.
  /// After anything but Filled::whole, and after an exception, the window is not to be closed.
  virtual Filled fill(WindowRequest& request, WindowRun& run) = 0;
  /// To be called after the window was closed, which may have quarantined more: throws as fill()
  /// does. Says whether the window has to be filled again. One that ranks closed early goes on, or
  /// is interrupted and to be dropped.
  virtual Filled closed(WindowRequest& request, WindowRun& run) = 0;
  /// Takes back what fill() did outside the window: to the model's buffers and to the loader's
  /// queue.
  virtual void undo() = 0;
  /// What is done of a window that was filled and could not be closed, with copies of its sums;
  /// none if they are not this rank's own any more, or where it cannot go on from there.
  virtual std::optional<StartedWindow> what_is_done(const WindowRequest& /*request*/,
                                                    const WindowRun& /*run*/) const {
    return std::nullopt;
  }
};

/// What every runner works with; all of it outlives the runner.
struct RunnerContext {
  models::Trainable& model;
  accum::Window& window;
  data::Loader& loader;
  std::uint64_t seed;
  RunLog& log;
  RunControl& control;
  memory::Retries& retries;
};

struct RunnerOptions {
  double max_quarantined =
      0.1;  ///< fraction of micro-batches, and of samples (allowed_quarantined)
  /// Says what losses are multiplied with, window by window, and learns of overflows; null: 1.
  optim::LossScaler* loss_scaler = nullptr;
  /// Exact batch normalisation keeps the activations at its cuts in this folder; empty: in memory.
  std::filesystem::path cut_folder = {};
  Recompute recompute = Recompute::none;
  /// What losses and weights alike are multiplied with, by which a proof rounds anew
  /// (PassOptions::weighting). Only MicroBatchRunner does it.
  double weighting = 1;
  /// Set if the window is one rank's share: it is told of each micro-batch, as the last one's
  /// backward may be overlapped. Null: the process is alone.
  distributed::DeferredReduce* reduce = nullptr;
  /// Told of the first micro-batch; null: nobody measures noise. Only MicroBatchRunner does it.
  NoiseMeter* noise = nullptr;
  /// Has the device repeat micro-batches; null: all are run. Only MicroBatchRunner does it.
  RecordedPass* recorded = nullptr;
  /// Keeps windows in their middle. Only MicroBatchRunner asks it.
  WindowKeeper keeper = {};
};

}  // namespace accrue::train
