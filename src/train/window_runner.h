#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "accrue/accum/window.h"
#include "accrue/batch/schedule.h"
#include "accrue/data/loader.h"
#include "accrue/models/trainable.h"

namespace accrue::train {

/// What a window's micro-batches came to.
struct WindowRun {
  bool interrupted = false;  ///< stopped between micro-batches; the window was discarded
  double loss_sum = 0;
  double weight = 0;
  std::int64_t tokens = 0;
  std::int64_t micro_batches = 0;
  std::int64_t quarantined = 0;
  double seconds = 0;                           ///< forward and backward
  std::optional<accum::MeanGradient> gradient;  ///< none where the total weight is 0
};

/// Runs the micro-batches of a window through a model into a gradient window.
class WindowRunner {
 public:
  struct Hooks {
    std::function<bool()> interrupted;  ///< asked between micro-batches
    std::function<void(std::int64_t done, std::int64_t total)> on_micro_batch;
    std::function<void(const MicroRef& micro, const std::string& reason)> on_quarantine;
  };

  /// All are kept by reference and must outlive the runner.
  WindowRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
               std::uint64_t seed, Hooks hooks);
  ~WindowRunner();

  /// Samples `range` in micro-batches of `micro` samples. `index` keys randomness.
  WindowRun run(std::int64_t index, batch::Range range, std::int64_t micro);

 private:
  ForwardContext context(std::int64_t index, const std::vector<std::int64_t>& sample_ids) const;
  void run_micro_batch(std::int64_t index, MicroRef ref, const batch::MicroBatch& micro,
                       WindowRun& result);
  Loss replay(const MicroRef& ref);

  models::Trainable& model_;
  accum::Window& window_;
  data::Loader& loader_;
  std::uint64_t seed_;
  Hooks hooks_;
  std::int64_t current_window_ = 0;
};

}  // namespace accrue::train
