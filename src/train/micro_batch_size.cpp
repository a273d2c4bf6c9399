#include "micro_batch_size.h"

#include <algorithm>
#include <bit>

#include "accrue/core/units.h"

namespace accrue::train {

MicroDecision decide_micro_batch(const MicroTrial& trial) {
  const std::int64_t budget = trial.available_bytes / 4;
  const std::int64_t fitting =
      trial.bytes_per_sample > 0 ? budget / trial.bytes_per_sample : trial.window_samples;
  const auto limit =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(fitting, 1, trial.window_samples));
  MicroDecision decision{.samples = static_cast<std::int64_t>(std::bit_floor(limit)), .reason = {}};
  decision.reason = "one sample took " + format_bytes(trial.bytes_per_sample) + "; " +
                    std::to_string(decision.samples) +
                    " is the largest power of two that fits in a quarter of the " +
                    format_bytes(trial.available_bytes) + " free, in a batch of " +
                    std::to_string(trial.window_samples);
  return decision;
}

}  // namespace accrue::train
