#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/optim/optimizer.h"
#include "data/loader.h"
#include "train/plan/setup.h"
#include "train/window/noise_meter.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Trains a config's model for a while, repeatedly from the same start, with batches and learning
/// rates that are given step by step. Nothing is written.
class ShortTraining {
 public:
  /// Prepares what a run prepares. Throws a usage Error if a run would.
  explicit ShortTraining(const Config& config);

  /// Goes back to the initial model, a new optimizer and the first sample.
  void restart();

  struct Step {
    bool is_finite = true;  ///< false: losses or gradients are not, and nothing was updated
    double loss = 0;        ///< mean of the batch before the step
    double weight = 0;
    std::int64_t units = 0;  ///< tokens of the batch, or samples if they have no tokens
    double seconds = 0;
    /// In the optimizer's geometry, if it has its own and has taken a step.
    std::optional<adapt::NoiseEstimate> noise;
  };
  /// Takes one optimizer step on the next `samples` samples.
  Step step(std::int64_t samples, double lr);

  /// Mean loss of the first held-out samples; none if the config holds none out.
  std::optional<double> held_out_loss();

  const Config& config() const { return work_.config; }
  /// optim.lr, scaled to the batch if optim.scale_lr is set.
  double stated_rate() const;
  /// Samples of the batch that the config states.
  std::int64_t batch_samples() const { return work_.schedule.window(0).size(); }
  /// The size of a sample in the batch's unit: tokens on average, or samples.
  double units_per_sample() const;
  bool counts_tokens() const { return !work_.data.train->image_shape().has_value(); }

 private:
  NamedParameters whole_state() const;

  Workload work_;
  MicroDecision micro_;
  data::Loader loader_;
  std::vector<at::Tensor> start_;  ///< of whole_state()
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<NoiseMeter> noise_;
  std::int64_t next_draw_ = 0, window_ = 0;
};

}  // namespace accrue::train
