#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"
#include "data/loader.h"
#include "train/pass/recorded_pass.h"
#include "train/plan/setup.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Throws a usage Error if `rounds` is less than one.
void expect_rounds(std::int64_t rounds);

/// Prepares threads and budget as a run does, and opens the config's model and data.
Workload open_to_measure(const Config& config);

/// A config's model, data and optimizer, as the subject of measurements: always the first window of
/// the data, with another index each time.
class BenchSubject {
 public:
  /// Prepares what a run prepares: threads, budget, micro-batch. Throws a usage Error if a run
  /// would.
  explicit BenchSubject(const Config& config);

  struct WindowTimes {
    double accumulation = 0;  ///< seconds of the micro-batches
    double optimizer = 0;     ///< seconds of norm, clip and step
    double loss = 0;          ///< mean over the window
  };
  /// A window that is not open, with a new gradient buffer; with run.graphs the buffer that
  /// recorded passes write to.
  accum::Window make_window() const;
  /// Runs the batch in `window` as a run does, by micro-batches of at most `samples`. Throws a
  /// runtime Error if a loss is not finite.
  WindowTimes run_window(accum::Window& window, std::int64_t index, std::int64_t samples);
  /// Runs the batch in a new window.
  WindowTimes accumulated_window(std::int64_t index, std::int64_t samples);
  /// Runs windows until everything exists that is allocated once.
  void warm_up();
  struct SystemUse {
    std::int64_t allocations = 0;  ///< requests to the system of 64 KiB and more
    std::int64_t page_faults = 0;  ///< minor ones
  };
  /// Measures a window, with its step, that follows another in the same gradient buffer.
  SystemUse system_use_when_warm();
  /// Seconds of the micro-batches' forward and backward into reused scratch memory alone.
  double bare_window();

  std::int64_t micro_batch() const { return micro_.samples; }
  Recompute recompute() const { return micro_.recompute; }
  /// How many micro-batches, of at most `samples` each, make a window.
  std::int64_t micro_batches(std::int64_t samples) const {
    return (window_samples() + samples - 1) / samples;
  }
  std::int64_t window_samples() const { return work_.schedule.window(0).size(); }
  /// Tokens of a window, or images if the data are images.
  std::int64_t window_tokens() const;
  bool images() const { return work_.data.train->image_shape().has_value(); }
  models::Model& model() const { return *work_.model; }
  c10::Device device() const { return device_; }
  const Config& config() const { return work_.config; }

 private:
  Workload work_;
  c10::Device device_;
  MicroDecision micro_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  data::Loader loader_;
  std::unique_ptr<RecordedPass> recorded_;              ///< null without run.graphs
  std::shared_ptr<accum::GradientBuffer> kept_buffer_;  ///< null without run.graphs
};

}  // namespace accrue::train
