#pragma once

#include <cstdint>

namespace accrue::optim {

/// Dynamic loss scaling for gradients in fp16 (Micikevicius et al., arXiv:1710.03740), as a state
/// machine without tensors: it says what to multiply losses with, and is told what came of it.
///
/// The scale holds for a whole window. The factor is removed where contributions are added into
/// fp32 main gradients, so the sums, and everything after them, never see it. An overflow says
/// nothing about the data: the window is replayed with half the scale, and nothing is quarantined.
/// Only at `min_scale` is a non-finite gradient the micro-batch's own.
///
/// No config reaches it in this version, since fp16 is computed on GPUs alone; a runner takes it.
class LossScaler {
 public:
  struct Options {
    double initial_scale = 65'536;
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

  /// Throws a usage Error where an option is out of range. Scales and factors are powers of two, so
  /// that scaling rounds nothing.
  explicit LossScaler(const Options& options);

  double scale() const { return state_.scale; }
  /// To be called where a micro-batch's gradient was not finite. Lowers the scale where it can.
  Verdict overflowed();
  /// To be called after a step. Raises the scale after `growth_interval` such windows in a row.
  void window_done();

  State state() const { return state_; }
  /// Throws a usage Error where the state is not one of a scaler with these options.
  void load(const State& state);

 private:
  Options options_;
  State state_;
};

}  // namespace accrue::optim
