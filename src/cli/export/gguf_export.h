#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accrue/models/gguf.h"
#include "accrue/train/run_directory.h"

namespace accrue::cli {

struct GgufExport {
  models::GgufDtype dtype = models::GgufDtype::f16;
  bool nearest_tokenizer = false;             ///< GgufTokens::nearest
  std::vector<std::int64_t> end_tokens = {};  ///< before which `accrue sample` ends a text
};

/// Writes OUT/model.gguf, adapters merged, with the tokenizer of the run or of its initial model,
/// and returns its card. Throws a usage Error if the model is not a gpt2 or llama, and as
/// save_llama_gguf() does.
std::string save_gguf(const std::filesystem::path& out, const train::TrainedModel& trained,
                      const GgufExport& wanted);

/// Writes OUT/adapter.gguf, only the run's adapters, and returns its card.
std::string save_gguf_adapter(const std::filesystem::path& out, const train::TrainedModel& trained);

}  // namespace accrue::cli
