#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "train/ranks/parallelism.h"
#include "train/run/run_window.h"
#include "verify/running_errors.h"
#include "verify/subject.h"

namespace accrue::proof {

/// The result of a pass is not finite. A usage Error if that of plain passes is not: there is
/// nothing to verify then.
struct NotFinite : Error {
  explicit NotFinite(Error error, bool plain) : Error(std::move(error)), of_plain_pass(plain) {}
  bool of_plain_pass;  ///< by plain autograd and ATen's operators, and not by training
};
/// Training did not close a window: parameters or gradients were changed while it ran.
struct LostWindow : Error {
  explicit LostWindow(const std::string& reason)
      : Error(accrue::runtime_error(
            "verify", "a window that training closes", reason,
            "looking at what changes parameters or gradients while it runs")) {}
};
/// `what`, of `where`, is not finite.
NotFinite not_finite(const std::string& what, const std::string& where, bool of_plain_pass = false);

/// The parts of a TrainedWindow; all references must outlive it.
struct TrainedWindowContext {
  const train::Config& config;
  models::Trainable& model;
  data::Loader& loader;
  std::shared_ptr<accum::GradientBuffer> buffer;
  std::uint64_t seed;
  train::Parallelism& parallelism;
};

/// Windows as training runs them: filled by the configured runner, and opened and closed by
/// train::run_window. It also bounds the error of accumulation.
class TrainedWindow {
 public:
  /// `options` are those not in the config; the parallelism's reduction is added. With shards
  /// (RunnerOptions) the buffer has this rank's part of the sums after a window.
  explicit TrainedWindow(const TrainedWindowContext& context, train::RunnerOptions options = {});
  ~TrainedWindow();
  TrainedWindow(const TrainedWindow&) = delete;
  TrainedWindow& operator=(const TrainedWindow&) = delete;

  /// Closes the window, so that WindowRun::gradient must be consumed, and the buffer has the sums
  /// until then. Throws a usage Error if a loss or a gradient is not finite, which training would
  /// leave out.
  train::WindowRun run(std::int64_t index, const Parts& parts);
  /// RunningErrors::bounds() of the last run; empty if gradients are folded.
  std::vector<double> accumulation_errors() const;
  /// RunningErrors::units() of the last run.
  std::vector<int> units() const { return errors_ ? errors_->units() : std::vector<int>(); }

 private:
  class Watch;
  void micro_batch_done(std::int64_t done, std::int64_t of);
  void require_finite() const;

  std::shared_ptr<accum::GradientBuffer> buffer_;
  bool interleaves_;           ///< contributions of micro-batches
  std::vector<bool> divided_;  ///< by entry of the buffer; empty: no sum is
  RankSlice slice_;
  std::optional<RunningErrors> errors_;
  train::RunLog::Observers observers_;
  train::TrainState state_;
  train::RunLog log_;
  train::RunControl control_;
  memory::Retries retries_;
  accum::Window window_;
  train::Parallelism& parallelism_;
  std::unique_ptr<train::Runner> runner_;
};

}  // namespace accrue::proof
