#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "accrue/core/observer.h"
#include "batch/sampler.h"
#include "batch/schedule.h"
#include "train/watch/alarm.h"

namespace accrue::train {

/// The values of a step from which spikes are found.
struct WatchedLoss {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> grad_norm;
  double lr = 0;
  batch::Range draws;  ///< of the step's window
};

/// Finds losses far above those of the steps before: by more than six times their usual distance
/// from their median, and by a tenth of it. The step after it shows the cause: if its loss is
/// normal again, with other samples and parameters that differ by one update, the window's samples
/// were unusual; if it stays high, the update before damaged the parameters.
///
/// Nothing is found in the first steps, which have nothing to be compared with. If a run goes back,
/// its record of the steps that it takes again is discarded.
class LossSpikes {
 public:
  static constexpr std::size_t fewest_steps = 20, most_steps = 64;

  /// `sampler` maps a window's draws to samples of the data.
  explicit LossSpikes(batch::Sampler sampler) : sampler_(std::move(sampler)) {}

  /// Call it with each step that had a loss. Returns an event `loss_spike` for the step before, if
  /// that was one; a spike that lasts is reported once.
  std::optional<Event> observe(const WatchedLoss& step);

 private:
  struct Spike {
    WatchedLoss at, before;
    double usual = 0;
    double high = 0;  ///< a loss of this size is no longer normal
    std::optional<double> usual_norm;
  };

  void forget_from(std::int64_t step);
  std::optional<Spike> spike_at(const WatchedLoss& step);
  std::string judge(const Spike& spike, double next_loss) const;
  std::string samples_of(batch::Range draws) const;
  static std::string updates_before(const Spike& spike);

  batch::Sampler sampler_;
  std::deque<WatchedLoss> seen_;  ///< the last steps
  Alarm alarm_{1, 0.5};           ///< in heights of a spike above the median
  std::optional<Spike> pending_;
};

}  // namespace accrue::train
