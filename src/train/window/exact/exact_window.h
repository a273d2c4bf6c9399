#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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

struct ExactOptions {
  /// Where the activations at the cuts are stored: a folder for a temporary file; empty: memory.
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
};

struct ExactRun {
  bool interrupted = false;  ///< the window was discarded
  double loss_sum = 0;
  double weight = 0;
  HeadSums heads;
  std::int64_t tokens = 0;
  std::int64_t micro_batches = 0;                   ///< including the quarantined ones
  std::vector<std::int64_t> quarantined;            ///< by their position in the window
  std::vector<batch::UnreadableSample> unreadable;  ///< samples that could not be read
};

/// Runs a window with the batch normalisation of its full batch, however it is split.
///
/// Every micro-batch goes through the segments up to the next batch normalisation, the statistics
/// are taken over all of them, then they continue. Backward does the same from the last segment:
/// each micro-batch's segment is run again from its cut, and the sums over the window that the
/// gradient of the statistics needs are taken before its gradient continues to the segment before.
/// Only the activations at the cuts are kept of the whole batch (with the inputs), in addition to
/// one micro-batch's graph of one segment. It costs one more forward pass than a plain window.
///
/// Since the contributions of the micro-batches interleave, all are one transaction of the window:
/// its ledger holds one entry with all their sample ids. A micro-batch whose activations, loss or
/// gradients are not finite is quarantined, in a separate entry, and the window starts again
/// without it, with the same bits as if it had never been there; an attempt that had begun its
/// backward is in the ledger as lost.
///
/// Running statistics are updated once, by the full batch's (the variance unbiased).
class ExactWindow {
 public:
  using Fetch = std::function<batch::MicroBatch(batch::Range)>;

  /// Model and window are kept by reference. Throws a usage Error if `model` has a batch
  /// normalisation that cannot be cut, with the reason.
  ExactWindow(models::Trainable& model, accum::Window& window, Fetch fetch, std::uint64_t seed,
              ExactOptions options = {});
  ~ExactWindow();

  /// Call it between window.open(index) and window.close(). The replay of `window` must be this
  /// object's.
  ExactRun run(std::int64_t index, std::span<const batch::Range> micro_batches);

  /// For accum::Window::set_replay: makes the contributions of the last run again, into open
  /// slots.
  Loss replay();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::train
