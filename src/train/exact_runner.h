#pragma once

#include "exact_window.h"
#include "window_runner.h"

namespace accrue::train {

/// What WindowRunner is, for models whose batch normalisation takes the whole window
/// (model.batchnorm = "exact").
class ExactRunner {
 public:
  /// All are kept by reference and must outlive the runner. Throws a usage Error where `model` has
  /// a batch normalisation that cannot be cut.
  ExactRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
              std::uint64_t seed, WindowRunner::Hooks hooks, WindowRunnerOptions options = {});
  ~ExactRunner();

  /// As WindowRunner::run.
  WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro);

 private:
  accum::Window& window_;
  WindowRunnerOptions options_;
  ExactWindow exact_;
};

}  // namespace accrue::train
