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
#include "distributed/reduce/parameter_shards.h"
#include "memory/retries.h"
#include "optim/loss_scale.h"
#include "train/window/run_control.h"
#include "train/window/run_log.h"
#include "train/window/started_window.h"

namespace accrue::train {

/// The contents that a window is to be filled with, and the lessons of its earlier fills. A runner
/// may change it: lack of memory splits micro-batches, and the next fill skips quarantined ones.
struct WindowRequest {
  /// A request for samples `range` in micro-batches of `samples_per_micro_batch`.
  static WindowRequest even(std::int64_t index, batch::Range range,
                            std::int64_t samples_per_micro_batch) {
    return {.index = index, .micro_batches = batch::split(range, samples_per_micro_batch)};
  }

  std::int64_t index = 0;                   ///< index of the window, which keys randomness
  std::vector<batch::Range> micro_batches;  ///< in order; none is empty
  /// First samples of micro-batches that are quarantined without being tried, since an earlier fill
  /// quarantined them.
  std::set<std::int64_t> to_quarantine = {};
  std::int64_t fills = 0;  ///< fills of this window before this one (Filled::again)
  /// Set if the window continues after its finished part, which is its first micro-batches. The
  /// others need not follow them, nor each other.
  std::optional<StartedWindow> started = {};
  bool went_on = false;  ///< whether go_on_from() gave it its micro-batches
  /// Whether this process did the finished part, so that its observers know what was quarantined.
  bool was_told = false;

  /// Makes the window continue after its finished part. The rest keeps its micro-batches, unless
  /// memory now allows another size, `micro_batch` samples, than it did then.
  void go_on_from(StartedWindow from, std::int64_t micro_batch);
};

/// The result of a window's micro-batches.
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
  double loss_scale = 1;           ///< the scale with which the window closed
  /// Peak bytes in tensors while a micro-batch ran; none if they are not metered.
  std::optional<std::int64_t> micro_batch_peak_bytes;
  double seconds = 0;          ///< forward and backward
  double earlier_seconds = 0;  ///< the part of them before the window was saved in its middle
  bool went_on = false;        ///< WindowRequest::went_on: its samples may be any of the window
  /// How long each committed micro-batch took, without reductions that overlapped; empty if
  /// micro-batches interleave (segment by segment, or in a pipeline).
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

/// The result of filling a window.
enum class Filled {
  whole,        ///< it can be closed
  interrupted,  ///< stopped between micro-batches: it has to be dropped
  again,        ///< it has to be opened and filled once more, with the changed request
  goes_on,      ///< ranks closed it early: it has to be filled with the rest, as in the request
};

/// Runs a window's micro-batches through a model. It neither opens nor closes the window:
///
///   const Opening opening = runner.prepare(request);
///   window.open(request.index, opening.loss_scale, opening.total_weight);
///   runner.fill(request, run);    // else: window.discard(), runner.undo()
///   run.gradient = window.close();
///   runner.closed(request, run);
///
/// After Filled::goes_on the window is filled with the rest in the same way, but without open(): it
/// is open on the rank that continues with the sums of all, and loaded on the others.
class Runner {
 public:
  struct Opening {
    double loss_scale = 1;
    std::optional<double> total_weight = {};
  };

  virtual ~Runner() = default;
  /// The arguments for opening the window; reads labels if losses need their weights beforehand.
  virtual Opening prepare(const WindowRequest& request) = 0;
  /// Fills the open window, and writes to `run` what the ledger does not have. Throws a runtime
  /// Error naming samples and reasons if more than the allowed number is quarantined. Do not close
  /// the window after anything but Filled::whole, nor after an exception.
  virtual Filled fill(WindowRequest& request, WindowRun& run) = 0;
  /// Call it after the window was closed, which may have quarantined more: throws as fill() does.
  /// Returns whether the window has to be filled again. One that ranks closed early continues, or
  /// is interrupted and has to be dropped.
  virtual Filled closed(WindowRequest& request, WindowRun& run) = 0;
  /// Reverts what fill() did outside the window: to the model's buffers and to the loader's
  /// queue.
  virtual void undo() = 0;
  /// The finished part of a window that was filled and could not be closed, with copies of its
  /// sums; none if they are no longer this rank's own, or it cannot continue from there.
  virtual std::optional<StartedWindow> completed_part(const WindowRequest& /*request*/,
                                                      const WindowRun& /*run*/) const {
    return std::nullopt;
  }
};

/// The objects that every runner uses; all of them outlive the runner.
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
  /// Gives the factor of losses, window by window, and receives overflows; null: 1.
  optim::LossScaler* loss_scaler = nullptr;
  /// A window that runs segment by segment keeps the activations at its cuts in this folder; empty:
  /// in memory. Only LayeredRunner uses it.
  std::filesystem::path cut_folder = {};
  /// Batch normalisation by the statistics of the whole window. Only LayeredRunner uses it.
  bool window_statistics = false;
  Recompute recompute = Recompute::none;
  /// A factor of losses and weights alike, which makes a verification round again
  /// (PassOptions::weighting). Only MicroBatchRunner uses it.
  double weighting = 1;
  /// Set if the window is one rank's share: it gets each micro-batch, as the last one's backward
  /// may be overlapped. Null: the process is alone.
  distributed::DeferredReduce* reduce = nullptr;
  /// Set if each rank keeps a part of the parameters and sums, and `reduce` takes sums in passes.
  /// Only LayeredRunner uses it.
  distributed::ParameterShards* shards = nullptr;
  /// Sees the first micro-batch; null: noise is not measured. Only MicroBatchRunner uses it.
  NoiseMeter* noise = nullptr;
  /// Makes the device repeat micro-batches; null: all are run. Only MicroBatchRunner uses it.
  RecordedPass* recorded = nullptr;
  /// Saves windows in their middle. Only MicroBatchRunner uses it.
  WindowKeeper keeper = {};
};

}  // namespace accrue::train
