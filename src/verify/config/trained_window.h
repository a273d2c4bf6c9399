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

/// What a pass gave is not finite. A usage Error if plain passes' is not: there is nothing to
/// prove then.
struct NotFinite : Error {
  explicit NotFinite(Error error, bool plain) : Error(std::move(error)), of_plain_pass(plain) {}
  bool of_plain_pass;  ///< by plain autograd and ATen's operators, and not by training's way
};
/// Training did not close a window: something changed parameters or gradients while it ran.
struct LostWindow : Error {
  explicit LostWindow(const std::string& reason)
      : Error(accrue::runtime_error(
            "verify", "a window that training closes", reason,
            "looking at what changes parameters or gradients while it runs")) {}
};
/// `what`, of `where`, is not finite.
NotFinite not_finite(const std::string& what, const std::string& where, bool of_plain_pass = false);

/// What a TrainedWindow is made of; all that is a reference outlives it.
struct TrainedWindowContext {
  const train::Config& config;
  models::Trainable& model;
  data::Loader& loader;
  std::shared_ptr<accum::GradientBuffer> buffer;
  std::uint64_t seed;
  train::Parallelism& parallelism;
};

/// Windows as training runs them: filled by the runner that the config asks for, and opened and
/// closed by train::run_window. Beside it stands what adding up may have lost.
class TrainedWindow {
 public:
  /// `options` are what the config does not tell; the parallelism's reduction is put in.
  explicit TrainedWindow(const TrainedWindowContext& context, train::RunnerOptions options = {});
  ~TrainedWindow();
  TrainedWindow(const TrainedWindow&) = delete;
  TrainedWindow& operator=(const TrainedWindow&) = delete;

  /// Closes it, so that WindowRun::gradient is to be consumed, and the buffer has the sums until
  /// then. Throws a usage Error if a loss or a gradient is not finite, which training would
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
  bool interleaves_;  ///< contributions of micro-batches
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
