#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/adapt/noise_scale.h"
#include "accrue/core/step_report.h"
#include "train/checkpoint/train_state.h"
#include "train/run/run_context.h"
#include "train/window/noise_meter.h"

namespace accrue::train {

/// Adds a window's reading of its gradient noise; `units` is the window's size in the batch's unit,
/// `weight` the weight of its loss.
void add_reading(const NoiseReading& reading, double units, double weight, AdaptState& state);

/// In the batch's unit, in the geometry that decides if it was measured; none before a measurement.
std::optional<adapt::NoiseScale> noise_in_batch_units(const AdaptState& state);

/// `blocks` are the names of the blocks in the state.
void report_noise(const AdaptState& state, const std::vector<std::string>& blocks,
                  StepReport& report);

/// Whether a decision depends on the noise.
bool uses_noise(const Config& config);
/// Whether micro-batches of such a run leave separate sums, whose norms show the noise.
bool shows_noise(const Workload& work);
/// Throws a usage Error if decisions depend on a noise that cannot be measured.
void require_measurable_noise(const Workload& work);

/// Measures the noise of a run's gradients; null if the config requests no measurement, or no
/// micro-batch leaves a separate sum.
std::unique_ptr<NoiseMeter> make_noise_meter(const RunContext& run,
                                             const accum::GradientBuffer& buffer);

}  // namespace accrue::train
