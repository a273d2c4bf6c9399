#include "train/run/make_runner.h"

#include <utility>

#include "train/window/layered/layered_runner.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/pipeline/pipeline_runner.h"
#include "train/workload/placement.h"
#include "train/workload/workload.h"

namespace accrue::train {

std::unique_ptr<Runner> make_runner(const Config& config, const RunnerContext& context,
                                    RunnerOptions options, std::optional<PipelineStage> stage) {
  options.max_quarantined = config.batch.max_quarantined;
  options.window_statistics = config.model.batchnorm == models::BatchNormPolicy::exact;
  if (stage)
    return std::make_unique<PipelineRunner>(context, std::move(*stage), std::move(options));
  if (is_layered(config, context.model))
    return std::make_unique<LayeredRunner>(context, std::move(options));
  return std::make_unique<MicroBatchRunner>(context, std::move(options));
}

std::unique_ptr<RecordedPass> make_recorded_pass(const Config& config, models::Model& model) {
  if (!config.run.graphs) return nullptr;
  return std::make_unique<RecordedPass>(model, device_of(model));
}

}  // namespace accrue::train
