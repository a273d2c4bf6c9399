#include "train/config/origin_kind.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "accrue/models/gguf_magic.h"
#include "accrue/train/config.h"
#include "core/atomic_file.h"
#include "train/config/gguf_architecture.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

std::optional<ModelKind> kind_of_folder(const fs::path& config) {
  const auto stated = nlohmann::json::parse(read_file(config), nullptr, /*exceptions=*/false);
  if (!stated.is_object() || !stated.contains("model_type")) return std::nullopt;
  const auto& type = stated["model_type"];
  if (!type.is_string()) return std::nullopt;
  return model_kind_words.find(type.get<std::string>()).value_or(ModelKind::llama);
}

}  // namespace

std::optional<ModelKind> kind_of_origin(const std::string& from) {
  const fs::path folder(from);
  if (from.empty()) return std::nullopt;
  if (models::is_gguf(from))
    return gguf_architecture(from) == "gpt2" ? ModelKind::gpt2 : ModelKind::llama;
  if (is_file(folder / "config.json")) return kind_of_folder(folder / "config.json");
  const fs::path of_checkpoint = fs::absolute(folder).lexically_normal() / "../.." / "config.toml";
  for (const fs::path& config : {folder / "config.toml", of_checkpoint})
    if (is_file(config) && (config != of_checkpoint || is_file(folder / "state.json")))
      return load_config(config).model.kind;
  return std::nullopt;
}

Error no_model_there(const std::string& operation, const std::string& received) {
  return usage_error(
      operation,
      "a Hugging Face folder (config.json, model.safetensors), a GGUF file, a run folder, or a "
      "checkpoint in one",
      received,
      "a folder on this machine (hf download openai-community/gpt2 --local-dir gpt2 makes one)");
}

bool leads_nowhere(const std::string& from) {
  std::error_code unreadable;
  return !from.empty() && !fs::exists(from, unreadable) && !unreadable;
}

}  // namespace accrue::train
