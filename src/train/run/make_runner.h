#pragma once

#include <memory>
#include <optional>

#include "accrue/train/config.h"
#include "train/pass/recorded_pass.h"
#include "train/window/pipeline/pipeline_stage.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Makes the runner for a config; `options` are what the config does not state, `stage` is set if
/// ranks are the stages of a pipeline.
std::unique_ptr<Runner> make_runner(const Config& config, const RunnerContext& context,
                                    RunnerOptions options = {},
                                    std::optional<PipelineStage> stage = {});

/// Null if run.graphs is false: each micro-batch is then run.
std::unique_ptr<RecordedPass> make_recorded_pass(const Config& config, models::Model& model);

}  // namespace accrue::train
