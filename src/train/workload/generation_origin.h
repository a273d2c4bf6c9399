#pragma once

#include <string>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// How texts of the model that `model.from` names go on (models::generation_config_text()): what
/// the files of a Hugging Face folder say, or what a run keeps of the model that it began with.
/// Empty if that says nothing, or is no model that goes on with a text.
std::string generation_of_origin(const ModelConfig& model);

/// The same of the model that a run began with, as the run keeps it; runs of earlier versions keep
/// nothing, and their folder says it. `run` is one whose tokenizer was verified.
std::string generation_of_run(const RunDirectory& run, const ModelConfig& model);

}  // namespace accrue::train
