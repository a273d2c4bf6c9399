#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"
#include "memory/disk_rates.h"
#include "memory/plan.h"
#include "train/plan/offload_traffic.h"

namespace accrue::train {

/// The facts of trials with the seconds of compute alone: without those in which a trial waited for
/// offloaded state, which each trial reads for one micro-batch and a window once for all. Compute
/// that went on during a wait is subtracted with it, so the result may be too short, and is not too
/// long. A pure function.
std::vector<memory::Fact> without_waits(std::vector<memory::Fact> facts);
/// The same for one trial.
memory::Measured without_wait(memory::Measured measured);

/// Seconds to compute one sample of a window in layered order, forward, forward again and backward,
/// by the trials of `recompute`: the slope between the two largest that fit, in which what does not
/// depend on the size cancels; if only one fits, all of its time. `facts` are without_waits(). None
/// if no trial fits. A pure function.
std::optional<double> compute_seconds_of_sample(const std::vector<memory::Fact>& facts,
                                                Recompute recompute);

/// A window whose state is offloaded.
struct OffloadedWindow {
  OffloadTraffic traffic;
  std::int64_t parameters = 0;
  memory::DiskRates rates;
  double sample_seconds = 0;  ///< compute_seconds_of_sample()
  std::int64_t samples = 0;
};

/// The prediction for such a window. A pass takes as long as its compute or its transfers,
/// whichever is longer; what comes after the passes computes little, and takes as long as its
/// transfers.
struct OffloadForecast {
  std::string folder;
  memory::DiskRates rates;
  double bytes_read = 0;     ///< in a step
  double bytes_written = 0;  ///< in a step
  double forward_seconds = 0;
  double backward_seconds = 0;  ///< with the forward pass that runs again
  double step_seconds = 0;      ///< finite sums, norm and the optimizer
  /// The smallest batch, in samples, whose passes hide their transfers; none if computing takes no
  /// measurable time.
  std::optional<std::int64_t> hiding_samples;

  double seconds() const { return forward_seconds + backward_seconds + step_seconds; }
};

/// Seconds of the passes of such a window if they compute for `compute_seconds`; sample_seconds and
/// samples are not read. A pure function.
double seconds_of_passes(const OffloadedWindow& window, double compute_seconds);

/// A pure function. `folder` is left empty.
OffloadForecast forecast_offload(const OffloadedWindow& window);

}  // namespace accrue::train
