#pragma once

#include <string>

#include "accrue/models/language_model.h"
#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// The model of a run, which must be a language model of accrue's. Throws a usage Error that names
/// `operation` and what to do instead, which is `for_images` for a model of images.
models::LanguageModel& expect_language_model(const train::TrainedModel& trained,
                                             const std::string& operation,
                                             const std::string& for_images,
                                             const std::string& for_others);

/// Whether the run's tokens are bytes of text, so that its model reads and writes text.
bool trained_on_bytes(const train::TrainedModel& trained);

}  // namespace accrue::cli
