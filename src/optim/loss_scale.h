#pragma once

#include <cstdint>

namespace accrue::optim {

/// Dynamic loss scaling for gradients in fp16 (Micikevicius et al., arXiv:1710.03740), as a state
/// machine without tensors: it gives the factor of the losses, and receives the outcome.
///
/// The scale applies to a whole window, whose mean gradient is free of it: a power of two does not
/// round, and norms, clipping and optimizers never see it. An overflow is not a fault of the data:
/// the window is replayed with half the scale, and nothing is quarantined. Only at `min_scale` is a
/// gradient that is not finite the fault of the micro-batch.
class LossScaler {
 public:
  struct Options {
    /// Losses here are sums over terms, so a logit's gradient is at most 1 whatever the batch is; a
    /// mean over 64 labels would be scaled by 65,536 with the same effect.
    double initial_scale = 1'024;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2'000;  ///< windows without an overflow
    double min_scale = 1;
    double max_scale = 16'777'216;  ///< 2^24
    bool dynamic = true;            ///< false: initial_scale is always used
  };

  /// All state for a checkpoint.
  struct State {
    double scale = 1;
    std::int64_t good_windows = 0;  ///< since the scale last changed
  };

  enum class Verdict {
    replay,      ///< run the window again, with the new scale()
    quarantine,  ///< the scale cannot fall: quarantine the micro-batch
  };

  /// Throws a usage Error if an option is out of range. Scales and factors are powers of two, so
  /// that scaling does not round.
  explicit LossScaler(const Options& options);

  double scale() const { return state_.scale; }
  /// Call if a micro-batch's gradient was not finite. Lowers the scale if it can.
  Verdict overflowed();
  /// Call after a step. Raises the scale after `growth_interval` such windows in a row.
  void window_done();

  State state() const { return state_; }
  /// Throws a usage Error if the state is not one of a scaler with these options.
  void load(const State& state);

 private:
  Options options_;
  State state_;
};

}  // namespace accrue::optim
