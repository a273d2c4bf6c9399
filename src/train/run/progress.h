#pragma once

#include <optional>
#include <utility>

#include "accrue/core/clock.h"
#include "train/checkpoint/train_state.h"

namespace accrue::train {

/// The progress of a run.
class Progress {
 public:
  /// `of_window` are the tensors of the window in the middle of which `from` was saved, if any.
  explicit Progress(TrainState from, StoredTensors of_window = {})
      : state(std::move(from)), elapsed_before_(state.elapsed) {
    if (state.middle) started = {std::move(*state.middle), std::move(of_window)};
    state.middle.reset();
  }

  /// Updates the state's time.
  void keep_time() { state.elapsed = elapsed_before_ + watch_.seconds(); }
  /// Begins another epoch; returns the seconds of the one that ends, if its beginning is known.
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
  /// The part of the next window that a checkpoint had done; none once a window was closed. Until
  /// then it is part of every checkpoint.
  std::optional<StartedWindow> started;
  /// This rank's part of the next window, with what is done of it, if the ranks changed in the
  /// middle of that window; none once it was closed.
  std::optional<StartedWindow> part;
  std::optional<double> last_loss;  ///< of the last window that this process ran

 private:
  double elapsed_before_;
  Stopwatch watch_;
};

}  // namespace accrue::train
