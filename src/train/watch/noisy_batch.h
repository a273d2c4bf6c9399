#pragma once

#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "train/watch/alarm.h"

namespace accrue::train {

/// Finds gradients that are noise for the most part: by the lower end of the noise scale's spread a
/// batch's is at least four times as much noise as signal, and a micro-batch's 64 times.
class NoisyBatch {
 public:
  /// To be told of each step. Returns what there is to tell, with what would help.
  std::optional<std::string> observe(const StepReport& step);

 private:
  Alarm alarm_{4, 2};
};

}  // namespace accrue::train
