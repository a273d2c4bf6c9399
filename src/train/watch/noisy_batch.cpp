#include "train/watch/noisy_batch.h"

#include <cmath>

#include "core/words.h"

namespace accrue::train {
namespace {

constexpr double most_of_a_micro_batch = 64;

std::string times(double ratio) { return digit_groups(std::llround(ratio)) + " times"; }

}  // namespace

std::optional<std::string> NoisyBatch::observe(const StepReport& step) {
  if (!step.noise_scale_low || step.weight <= 0 || step.micro_batches < 1) return std::nullopt;
  const double of_batch = *step.noise_scale_low / step.weight;
  const double of_micro_batch = of_batch * static_cast<double>(step.micro_batches);
  const double level = of_micro_batch < most_of_a_micro_batch ? 0 : of_batch;
  if (!alarm_.rings(level)) return std::nullopt;
  return "a micro-batch's gradient is at least " + times(of_micro_batch) +
         " as much noise as signal, and the batch's " + times(of_batch) + " (noise scale " +
         digit_groups(std::llround(*step.noise_scale_low)) + " or more, of a batch of " +
         digit_groups(std::llround(step.weight)) +
         " terms): more of them would take fewer steps for about as much data; try a larger batch, "
         "which costs no memory, or adapt.batch = \"critical\"";
}

}  // namespace accrue::train
