#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "batch/schedule.h"
#include "data/loader.h"
#include "train/plan/setup.h"
#include "train/run/window_sums.h"

namespace accrue::train {

/// A model and data whose windows are stated by a caller, who also takes the optimizer's steps
/// somewhere else: parameters and samples go in, sums come out. It has no other state, so a
/// process that is lost can be replaced by any with the same data.
///
/// Samples are stated as draw ordinals (epoch * total + position), which key random masks as in a
/// run over all data (batch::MicroBatch::sample_ids).
class WindowWorker {
 public:
  /// Opens data and model, and chooses the micro-batch as a run does. Sets threads and budget of
  /// the process. Throws a usage Error as Trainer does, or as expect_exchangeable_sums() does.
  explicit WindowWorker(const Config& config);

  /// Makes the data the section [first, first + samples()) of `total` samples: draws then count
  /// those of all. Throws a usage Error unless data.order is "sequential", or as data::section().
  void take_place(std::int64_t first, std::int64_t total);

  std::string frozen_digest() const { return digest_of_frozen(*work_.model); }
  std::int64_t samples() const { return work_.data.train->size(); }
  std::int64_t micro_batch() const { return micro_.samples; }
  DataShape shape() const;
  NamedParameters parameters() const { return optim::trained_of(work_.model->parameters()); }
  void load(const NamedParameters& values) { load_trained(*work_.model, values); }

  /// Runs the samples of window `index`, in order, in micro-batches that no range shares. `units`
  /// are those of the window (accum::GradientBuffer::units()); empty: those that a new run has.
  /// Throws a usage Error for an empty range, and the errors of a run's window: above all a runtime
  /// Error if more micro-batches than batch.max_quarantined have no finite loss.
  WindowSums run(std::int64_t index, std::span<const batch::Range> draws,
                 const std::vector<int>& units);

 private:
  Workload work_;
  MicroDecision micro_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::vector<int> first_units_;
  std::unique_ptr<data::Loader> loader_;
};

}  // namespace accrue::train
