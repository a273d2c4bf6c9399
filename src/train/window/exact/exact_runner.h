#pragma once

#include <memory>

#include "train/window/exact/exact_window.h"
#include "train/window/micro_batch_runner.h"

namespace accrue::train {

/// For models whose batch normalisation takes the whole window (model.batchnorm = "exact").
class ExactRunner final : public Runner {
 public:
  /// All are kept by reference and must outlive the runner. Throws a usage Error where `model` has
  /// a batch normalisation that cannot be cut.
  ExactRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
              std::uint64_t seed, WindowHooks hooks, RunnerOptions options = {});
  ~ExactRunner() override;

  WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro) override;

 private:
  WindowRun attempt(std::int64_t index, const std::vector<batch::Range>& parts);
  ExactOptions exact_options();
  void tell_progress(std::int64_t passes_done, std::int64_t passes);
  void quarantine(const MicroRef& micro, const std::string& reason);

  accum::Window& window_;
  data::Loader& loader_;
  WindowHooks hooks_;
  RunnerOptions options_;
  WindowLosses losses_;
  BufferSnapshot at_open_;  ///< the window's
  MemoryRetries retries_;
  std::int64_t micro_batches_ = 0;  ///< of the window that runs
  std::int64_t told_ = 0;
  ExactWindow exact_;
};

}  // namespace accrue::train
