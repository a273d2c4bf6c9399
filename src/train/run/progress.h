#pragma once

#include <optional>
#include <utility>

#include "accrue/core/clock.h"
#include "train/checkpoint/train_state.h"

namespace accrue::train {

/// How far a run has come.
class Progress {
 public:
  /// `of_window` are the tensors of the window that `from` is in the middle of, if it is.
  explicit Progress(TrainState from, StoredTensors of_window = {})
      : state(std::move(from)), elapsed_before_(state.elapsed) {
    if (state.middle) started = {std::move(*state.middle), std::move(of_window)};
    state.middle.reset();
  }

  /// Brings the state's time up to now.
  void keep_time() { state.elapsed = elapsed_before_ + watch_.seconds(); }
  /// Begins another epoch; returns the seconds of the one that ends now, if its begin is known.
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
  /// What a checkpoint had done of the window ahead; none once a window was closed. It is part of
  /// every checkpoint until then.
  std::optional<StartedWindow> started;
  /// This rank's part of the window ahead, and what is done of that, where the ranks changed in the
  /// window's middle; none once it was closed.
  std::optional<StartedWindow> part;
  std::optional<double> last_loss;  ///< of the last window that this process ran

 private:
  double elapsed_before_;
  Stopwatch watch_;
};

}  // namespace accrue::train
