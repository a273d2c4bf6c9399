#pragma once

#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "train/watch/alarm.h"

namespace accrue::train {

/// Finds gradients that are mostly noise: by the lower end of the noise scale's spread a batch's
/// gradient is at least four times as much noise as signal, and a micro-batch's 64 times.
class NoisyBatch {
 public:
  /// Call it with each step. Returns a remark with what would help.
  std::optional<std::string> observe(const StepReport& step);

 private:
  Alarm alarm_{4, 2};
};

}  // namespace accrue::train
