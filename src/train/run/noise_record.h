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

/// Takes in what a window told of its gradient's noise; `units` are what the batch's unit counts of
/// it, `weight` that of its loss.
void add_reading(const NoiseReading& reading, double units, double weight, AdaptState& state);

/// In the batch's unit, in the geometry that decides where it was measured; nothing before any was.
std::optional<adapt::NoiseScale> noise_in_batch_units(const AdaptState& state);

/// `blocks` are the names of those in the state.
void report_noise(const AdaptState& state, const std::vector<std::string>& blocks,
                  StepReport& report);

/// Whether anything is decided by the noise.
bool uses_noise(const Config& config);
/// Whether a micro-batch of such a run leaves a sum of its own, whose norm tells of noise.
bool shows_noise(const Workload& work);
/// Throws a usage Error if decisions are to be made by a noise that nobody can measure.
void expect_noise_that_decides(const Workload& work);

/// What measures the noise of a run's gradients; null if the config asks for none, or no
/// micro-batch leaves a sum of its own.
std::unique_ptr<NoiseMeter> make_noise_meter(const RunContext& run,
                                             const accum::GradientBuffer& buffer);

}  // namespace accrue::train
