#include "train/step/micro_batch_size.h"

#include <algorithm>
#include <bit>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"

namespace accrue::train {

MicroTrial micro_trial(std::int64_t bytes_per_sample, std::int64_t window_samples) {
  MicroTrial trial{.bytes_per_sample = bytes_per_sample, .window_samples = window_samples};
  if (const auto budget = memory::tensor_budget()) {
    trial.of_a_budget = true;
    trial.available_bytes = std::max<std::int64_t>(0, *budget - memory::usage().live);
  } else {
    trial.available_bytes = memory::available_bytes();
  }
  return trial;
}

MicroDecision decide_micro_batch(const MicroTrial& trial) {
  if (trial.bytes_per_sample <= 0)
    return {.samples = trial.window_samples,
            .reason = "what a sample takes could not be measured: the whole batch of " +
                      std::to_string(trial.window_samples) + " is tried"};
  const std::int64_t share = trial.available_bytes / (trial.of_a_budget ? 2 : 4);
  const std::string memory = (trial.of_a_budget ? "half of the " : "a quarter of the ") +
                             format_bytes(trial.available_bytes) +
                             (trial.of_a_budget ? " that the budget leaves" : " free");
  const std::string taken = "one sample took " + format_bytes(trial.bytes_per_sample) + "; ";
  const std::int64_t fitting = std::max<std::int64_t>(1, share / trial.bytes_per_sample);
  if (fitting >= trial.window_samples)
    return {.samples = trial.window_samples,
            .reason = taken + "the whole batch of " + std::to_string(trial.window_samples) +
                      " fits in " + memory};
  const auto samples =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(fitting)));
  return {.samples = samples,
          .reason = taken + std::to_string(samples) + " is the largest power of two that fits in " +
                    memory + ", in a batch of " + std::to_string(trial.window_samples)};
}

void check_batch(const char* operation, std::int64_t samples, std::int64_t micro_batch,
                 bool may_be_empty) {
  if (samples < 1 && !may_be_empty)
    throw usage_error(operation, "a batch of at least one sample", std::to_string(samples),
                      "leaving out empty batches, such as the last one of a loader");
  if (micro_batch < 0)
    throw usage_error(operation, "micro_batch >= 0", std::to_string(micro_batch),
                      "the most samples that run at once, or 0 for automatic");
}

}  // namespace accrue::train
