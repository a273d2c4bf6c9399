#pragma once

#include <filesystem>
#include <string>

#include "accrue/models/llama_gguf.h"
#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// Writes OUT/model.gguf, adapters merged, with the tokenizer of the run or of the model that it
/// began with, and returns its card. Throws a usage Error where the model is no llama, and as
/// save_llama_gguf() does.
std::string save_gguf(const std::filesystem::path& out, const train::TrainedModel& trained,
                      models::GgufDtype dtype);

/// Writes OUT/adapter.gguf, the run's adapters alone, and returns its card.
std::string save_gguf_adapter(const std::filesystem::path& out, const train::TrainedModel& trained);

}  // namespace accrue::cli
