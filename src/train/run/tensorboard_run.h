#pragma once

#include "observe/tensorboard/tensorboard_sink.h"
#include "train/run/sinks.h"

namespace accrue::train {

/// The data for TensorBoard in addition to a run's measurements: the config by its keys (those that
/// it reads, without run.out, which is the run's name there) and as text, and the plan as text.
observe::TensorboardRun tensorboard_run(const SinkContext& run);

}  // namespace accrue::train
