#include "train/run/noise_record.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "train/config/gradient_folding.h"
#include "train/plan/memory_advice.h"

namespace accrue::train {
namespace {

void add(const std::optional<adapt::NoiseEstimate>& estimate, adapt::NoiseAverage::State& state) {
  if (!estimate) return;
  adapt::NoiseAverage average = adapt::NoiseAverage::restored(state);
  average.add(*estimate);
  state = average.state();
}

std::optional<adapt::NoiseScale> scale_of(const adapt::NoiseAverage::State& state) {
  return adapt::NoiseAverage::restored(state).scale();
}

}  // namespace

void add_reading(const NoiseReading& reading, double units, double weight, AdaptState& state) {
  add(reading.total, state.noise);
  add(reading.in_geometry, state.in_geometry);
  state.blocks.resize(reading.blocks.size());
  for (std::size_t i = 0; i < reading.blocks.size(); ++i) add(reading.blocks[i], state.blocks[i]);
  state.measured += 1;
  state.units += units;
  state.weight += weight;
}

std::optional<adapt::NoiseScale> noise_in_batch_units(const AdaptState& state) {
  if (!(state.weight > 0)) return std::nullopt;
  const auto noise = scale_of(state.in_geometry.windows > 0 ? state.in_geometry : state.noise);
  if (!noise) return std::nullopt;
  return adapt::in_units(*noise, state.units / state.weight);
}

void report_noise(const AdaptState& state, const std::vector<std::string>& blocks,
                  StepReport& report) {
  const auto noise = scale_of(state.noise);
  if (!noise) return;
  report.gradient_variance = noise->variance;
  report.noise_scale = noise->value;
  report.noise_scale_low = noise->low;
  report.noise_scale_high = noise->high;
  if (const auto in_geometry = scale_of(state.in_geometry))
    report.noise_scale_in_geometry = in_geometry->value;
  for (std::size_t i = 0; i < std::min(blocks.size(), state.blocks.size()); ++i)
    if (const auto block = scale_of(state.blocks[i]); block && block->value)
      report.noise_scales[blocks[i]] = *block->value;
}

bool uses_noise(const Config& config) {
  return adapt::measures_noise(config.adapt.batch) ||
         config.adapt.lr_rule == adapt::RateRule::adascale;
}

bool shows_noise(const Workload& work) {
  const Config& config = work.config;
  return !folds_gradients(config) && !config.dist.takes_outer_steps() && config.dist.stages == 1 &&
         config.dist.compress == distributed::Compression::none &&
         !is_layered(config, *work.model) && work.model->losses().size() == 1;
}

void require_measurable_noise(const Workload& work) {
  if (!uses_noise(work.config) || shows_noise(work)) return;
  throw usage_error("adapt.batch", "a model with one loss, whose gradient's noise can be measured",
                    "several losses with denominators of their own",
                    "batch.schedule, or adapt.batch = \"seesaw\", which measures nothing");
}

std::unique_ptr<NoiseMeter> make_noise_meter(const RunContext& run,
                                             const accum::GradientBuffer& buffer) {
  const Config& config = run.work.config;
  const bool is_wanted = config.observe.noise != NoiseDetail::none || uses_noise(config);
  if (!is_wanted || buffer.folds() || !shows_noise(run.work)) return nullptr;
  const bool is_fixed = config.precision.accumulate == accum::Accumulation::fixed;
  NoiseMeter::Options options{.detail = config.observe.noise,
                              .decides = is_fixed || uses_noise(config),
                              .beta2 = config.optim.beta2,
                              .eps = config.optim.eps};
  const bool has_own = config.optim.kind != OptimizerKind::sgd;
  if (adapt::measures_noise(config.adapt.batch) &&
      (has_own || config.adapt.geometry != NoiseGeometry::optimizer))
    options.geometry = config.adapt.geometry;
  return std::make_unique<NoiseMeter>(buffer, run.optimizer, options);
}

}  // namespace accrue::train
