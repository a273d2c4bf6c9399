#include "verify/doctor/first_steps.h"

#include <algorithm>

#include "accrue/adapt/noise_scale.h"
#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "memory/out_of_memory.h"
#include "train/measure/short_training.h"
#include "verify/free_bytes.h"

namespace accrue::proof {
namespace {

constexpr std::int64_t most_steps = 16;
constexpr double most_seconds = 15;

/// Weights, gradients, two moments and the copy to which a short training returns, and as much
/// again for activations.
bool would_fit(const RunFacts& facts) {
  constexpr std::int64_t bytes_per_parameter = 2 * 5 * 4;
  const std::int64_t left = free_bytes();
  return facts.parameters * bytes_per_parameter < left / 2;
}

void take_steps(RunFacts& facts) {
  train::ShortTraining training(facts.config);
  const optim::LearningRate rate = train::make_learning_rate(
      facts.config, {.total_steps = facts.total_steps,
                     .tokens_per_step = facts.batch_tokens,
                     .steps_per_epoch = static_cast<double>(facts.steps_per_epoch)});
  adapt::NoiseAverage noise(0.99);
  double units = 0, weight = 0;
  const Stopwatch watch;
  for (std::int64_t i = 0; i < std::min(most_steps, facts.total_steps); ++i) {
    const auto step = training.step(training.batch_samples(), rate.at(i));
    facts.first_steps_are_finite = step.is_finite;
    if (!step.is_finite) break;
    facts.first_losses.push_back(step.loss);
    units += static_cast<double>(step.units);
    weight += step.weight;
    if (i > 0 && step.noise) noise.add(*step.noise);  // the first one is in the Euclidean norm
    if (watch.seconds() > most_seconds) break;
  }
  const auto scale = noise.scale();
  if (!scale || weight == 0) return;
  facts.noise = adapt::in_units(*scale, units / weight);
  facts.noise_batch = units / static_cast<double>(facts.first_losses.size());
}

}  // namespace

void take_first_steps(RunFacts& facts) {
  if (facts.first_weight == 0 || !would_fit(facts)) return;
  try {
    take_steps(facts);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::usage) throw;  // such a run is refused: see other findings
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    facts.first_losses.clear();  // the run itself holds one model, and not two
  }
}

}  // namespace accrue::proof
