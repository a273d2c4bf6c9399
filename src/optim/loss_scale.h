#pragma once

#include <cstdint>

namespace accrue::optim {

/// Dynamic loss scaling for gradients in fp16 (Micikevicius et al., arXiv:1710.03740), as a state
/// machine without tensors: it says what to multiply losses with, and is told what came of it.
///
/// The scale holds for a whole window, whose mean gradient has it taken out: nothing rounds by a
/// power of two, and norms, clipping and optimizers never see it. An overflow says
/// nothing about the data: the window is replayed with half the scale, and nothing is quarantined.
/// Only at `min_scale` is a non-finite gradient the micro-batch's own.
class LossScaler {
 public:
  struct Options {
    /// Losses here are sums over what counts, so that a logit's gradient is 1 at most whatever the
    /// batch is; a mean over 64 labels would be scaled with 65,536 to the same end.
    double initial_scale = 1'024;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2'000;  ///< windows without an overflow
    double min_scale = 1;
    double max_scale = 16'777'216;  ///< 2^24
    bool dynamic = true;            ///< false: initial_scale is used throughout
  };

  /// All that a checkpoint needs.
  struct State {
    double scale = 1;
    std::int64_t good_windows = 0;  ///< since the scale last changed
  };

  enum class Verdict {
    replay,      ///< run the window again, with the new scale()
    quarantine,  ///< the scale cannot fall: quarantine the micro-batch
  };

  /// Throws a usage Error if an option is out of range. Scales and factors are powers of two, so
  /// that scaling rounds nothing.
  explicit LossScaler(const Options& options);

  double scale() const { return state_.scale; }
  /// To be called if a micro-batch's gradient was not finite. Lowers the scale if it can.
  Verdict overflowed();
  /// To be called after a step. Raises the scale after `growth_interval` such windows in a row.
  void window_done();

  State state() const { return state_; }
  /// Throws a usage Error if the state is not one of a scaler with these options.
  void load(const State& state);

 private:
  Options options_;
  State state_;
};

}  // namespace accrue::optim
