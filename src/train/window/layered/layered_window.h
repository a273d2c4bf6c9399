#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/batch/micro_batch.h"
#include "accrue/models/trainable.h"
#include "batch/schedule.h"
#include "train/pass/forward_backward.h"

namespace accrue::train {

/// Adds up a tensor over all ranks, in place; empty if there is one rank.
using AllReduce = std::function<void(at::Tensor& sums)>;

/// The micro-batches of a window are about to pass through a segment. The chain's last segment runs
/// forward only in its backward visit.
struct SegmentVisit {
  std::size_t segment = 0;
  bool backward = false;
  std::optional<std::size_t> next = {};  ///< the segment after this one; none at the end
  bool next_backward = false;
};

struct LayeredOptions {
  /// The folder of a temporary file for the activations at the cuts; empty: they are in memory.
  std::filesystem::path cut_folder;
  /// Adds the statistics' sums over the ranks that share the window. All must run windows of the
  /// same model, which they then leave in the same state; a rank may have no micro-batches.
  AllReduce all_reduce;
  /// How several losses with separate denominators add up, called before each attempt. Empty:
  /// losses add up by their coefficients, and a usage Error is thrown if their weights differ. A
  /// loss scale is the window's.
  std::function<PassOptions()> losses;
  std::function<bool()> interrupted;  ///< called between micro-batches
  /// Called with the number of finished passes of a micro-batch through a segment, and with the
  /// window's total.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress;
  std::function<void(const MicroRef& micro, const std::string& reason)> on_quarantine;
  /// Batch normalisation by the statistics of the whole window; otherwise by each micro-batch's.
  bool window_statistics = false;
  /// Called before the first micro-batch enters a segment, in every attempt and replay.
  std::function<void(const SegmentVisit&)> before_segment = {};
  /// Called with the trained parameters of a segment, before the backward of its first micro-batch;
  /// those of the last segment include the losses'. A segment without any is left out if no
  /// gradient can be taken in it.
  std::function<void(std::size_t segment, const std::vector<at::Tensor>& leaves)> on_parameters =
      {};
  /// Whether the sums of a segment's parameters are finite, after the backward pass of its
  /// micro-batches, or of one in an audit. Empty: those of the whole buffer are looked at once, at
  /// the end.
  std::function<bool(std::size_t segment)> sums_are_finite = {};
  /// Called after the backward pass of a segment's micro-batches if nothing was found on any rank:
  /// takes the sums that are final.
  std::function<void(std::size_t segment)> take_sums = {};
};

struct LayeredRun {
  bool interrupted = false;  ///< the window was discarded
  double loss_sum = 0;
  double weight = 0;
  HeadSums heads;
  std::int64_t tokens = 0;
  std::int64_t micro_batches = 0;                   ///< including the quarantined ones
  std::vector<std::int64_t> quarantined;            ///< by their position in the window
  std::vector<batch::UnreadableSample> unreadable;  ///< samples that could not be read
};

/// Runs a window segment by segment: all its micro-batches pass through one segment before the
/// next begins (layered gradient accumulation, arXiv:2106.02679).
///
/// Forward keeps the activations at the cuts between segments. Backward begins with the last
/// segment: each micro-batch's segment is run again from its cut, and its gradient is kept for the
/// segment before. Only the activations at the cuts are kept of the whole batch (with the inputs),
/// in addition to one micro-batch's graph of one segment. It costs one more forward pass than a
/// plain window. A parameter that one segment uses receives the contributions in the order of the
/// micro-batches, so its sum has the bits of a plain window. A segment's second run has to repeat
/// the first one: a module whose result depends on buffers that it changes itself, such as the
/// vectors of a power iteration, gets the gradient at their later values.
///
/// With the statistics of the whole window the batch normalisation is that of the full batch,
/// however it is split: the statistics are taken over all micro-batches at a cut before they
/// continue, and so are, in backward, the sums that the gradient of the statistics needs. Running
/// statistics are updated once, by the full batch's (the variance unbiased).
///
/// Since the contributions of the micro-batches interleave, all are one transaction of the window:
/// its ledger holds one entry with all their sample ids. A micro-batch whose loss or gradients are
/// not finite is quarantined, in a separate entry, and the window starts again without it, with the
/// same bits as if it had never been there. The same holds for activations that the statistics of
/// the window would include. An attempt that had begun its backward is in the ledger as lost.
class LayeredWindow {
 public:
  using Fetch = std::function<batch::MicroBatch(batch::Range)>;

  /// Model and window are kept by reference. With the statistics of the window, throws a usage
  /// Error if `model` has a batch normalisation that cannot be cut, with the reason.
  LayeredWindow(models::Trainable& model, accum::Window& window, Fetch fetch, std::uint64_t seed,
                LayeredOptions options = {});
  ~LayeredWindow();

  /// Call it between window.open(index) and window.close(). The replay of `window` must be this
  /// object's.
  LayeredRun run(std::int64_t index, std::span<const batch::Range> micro_batches);

  /// For accum::Window::set_replay: makes the contributions of the last run again, into open
  /// slots.
  Loss replay();

  /// Gives the model's buffers the values that they had when the last run began.
  void restore_buffers() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::train
