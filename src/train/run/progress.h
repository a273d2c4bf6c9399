#pragma once

#include <optional>
#include <utility>

#include "accrue/core/clock.h"
#include "train/checkpoint/train_state.h"

namespace accrue::train {

/// How far a run has come.
class Progress {
 public:
  explicit Progress(TrainState from) : state(std::move(from)), elapsed_before_(state.elapsed) {}

  /// Brings the state's time up to now.
  void keep_time() { state.elapsed = elapsed_before_ + watch_.seconds(); }
  /// Begins another epoch; returns the seconds of the one that ends now, where its begin is known.
  std::optional<double> end_epoch() {
    keep_time();
    const std::optional<double> began = std::exchange(state.epoch_began, state.elapsed);
    return began ? std::optional(state.elapsed - *began) : std::nullopt;
  }
  /// Goes back to an earlier state, and to its time.
  void go_back_to(TrainState earlier) {
    state = std::move(earlier);
    elapsed_before_ = state.elapsed - watch_.seconds();
  }

  TrainState state;
  std::optional<double> last_loss;  ///< of the last window that this process ran

 private:
  double elapsed_before_;
  Stopwatch watch_;
};

}  // namespace accrue::train
