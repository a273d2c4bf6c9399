#pragma once

#include <filesystem>
#include <string>

#include "accrue/core/error.h"
#include "accrue/models/language_model.h"
#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// The model of a run, which must be one of accrue's language models. Throws a usage Error that
/// names `operation` and the alternative, which is `for_images` for an image model.
models::LanguageModel& expect_language_model(const train::TrainedModel& trained,
                                             const std::string& operation,
                                             const std::string& for_images,
                                             const std::string& for_others);

/// The Error of expect_language_model() for a run of such a model.
Error no_language_model(const train::ModelConfig& model, const std::string& operation,
                        const std::string& for_images, const std::string& for_others);

/// Whether the run's tokens are bytes of text, so that its model reads and writes text.
bool trained_on_bytes(const train::TrainedModel& trained);

/// The tokenizer.json of the run's text, or of the initial model of a run on token ids; empty if
/// there is none, and for a run on bytes.
std::filesystem::path tokenizer_file_of(const train::TrainedModel& trained);

}  // namespace accrue::cli
