#pragma once

#include <string>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The generation settings of the model that `model.from` names (models::generation_config_text()):
/// those in the files of a Hugging Face folder, or those that a run keeps of its initial model.
/// Empty if there are none, or the model does not generate text.
std::string generation_of_origin(const ModelConfig& model);

/// The same for the initial model of a run, as the run keeps it; runs of earlier versions keep
/// nothing: then the model's folder is read. The tokenizer of `run` has been verified.
std::string generation_of_run(const RunDirectory& run, const ModelConfig& model);

}  // namespace accrue::train
