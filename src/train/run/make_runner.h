#pragma once

#include <memory>
#include <optional>

#include "train/window/micro_batch_runner.h"
#include "train/window/pipeline/pipeline_stage.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The one that a config asks for; `options` are what the config does not tell, `stage` is where
/// ranks are the stages of a pipeline.
std::unique_ptr<Runner> make_runner(const Config& config, models::Trainable& model,
                                    accum::Window& window, data::Loader& loader, WindowHooks hooks,
                                    RunnerOptions options = {},
                                    std::optional<PipelineStage> stage = {});

}  // namespace accrue::train
