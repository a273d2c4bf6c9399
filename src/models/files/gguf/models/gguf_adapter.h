#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "accrue/models/language_model.h"
#include "models/files/gguf/models/gguf_names.h"

namespace accrue::models {

/// llama.cpp's form of the weights to which adapters belong.
struct GgufAdapterLayout {
  std::string_view architecture;
  GgufNames names;
  /// For a weight with one of Hugging Face's names, the heads whose rows are stored for rotations
  /// of adjacent channels; 0: its rows are not reordered.
  std::function<std::int64_t(std::string_view weight)> rotated_heads;
};

/// Writes the adapters of a model, by the contract of save_llama_gguf_adapter().
void write_gguf_adapter(const std::filesystem::path& file, const LanguageModel& model,
                        const GgufAdapterLayout& layout);

}  // namespace accrue::models
