#include "train/run/make_runner.h"

#include <utility>

#include "train/window/exact/exact_runner.h"
#include "train/window/pipeline/pipeline_runner.h"

namespace accrue::train {

std::unique_ptr<Runner> make_runner(const Config& config, models::Trainable& model,
                                    accum::Window& window, data::Loader& loader, WindowHooks hooks,
                                    RunnerOptions options, std::optional<PipelineStage> stage) {
  options.max_quarantined = config.batch.max_quarantined;
  if (stage)
    return std::make_unique<PipelineRunner>(model, window, loader, config.run.seed,
                                            std::move(*stage), std::move(hooks), options);
  if (is_exact(config, model))
    return std::make_unique<ExactRunner>(model, window, loader, config.run.seed, std::move(hooks),
                                         options);
  return std::make_unique<MicroBatchRunner>(model, window, loader, config.run.seed,
                                            std::move(hooks), options);
}

}  // namespace accrue::train
