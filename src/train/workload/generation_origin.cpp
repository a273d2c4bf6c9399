#include "train/workload/generation_origin.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "accrue/models/gguf.h"
#include "core/atomic_file.h"
#include "models/files/config/generation_config.h"
#include "train/checkpoint/kept_tokenizer.h"
#include "train/workload/model_origin.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool goes_on_with_texts(ModelKind kind) {
  return kind == ModelKind::gpt2 || kind == ModelKind::llama;
}

std::string kept_generation(const RunDirectory& run) {
  const fs::path file = run.tokenizer_folder() / kGenerationOfModel;
  std::error_code unreadable;
  return fs::exists(file, unreadable) ? read_file(file) : std::string();
}

/// The end tokens of a GGUF file, as a generation_config.json states them.
std::string generation_of_gguf(const std::string& file) {
  const std::vector<std::int64_t> ends = models::read_gguf_end_tokens(file);
  if (ends.empty()) return {};
  return nlohmann::json{{"eos_token_id", ends}}.dump();
}

std::string generation_of_folder(const ModelConfig& model) {
  if (!goes_on_with_texts(model.kind) || model.from.empty()) return {};
  if (models::is_gguf(model.from)) return generation_of_gguf(model.from);
  return models::generation_config_text(model.from);
}

}  // namespace

std::string generation_of_origin(const ModelConfig& model) {
  const auto origin = run_origin(model.from);
  return origin ? kept_generation(origin->run) : generation_of_folder(model);
}

std::string generation_of_run(const RunDirectory& run, const ModelConfig& model) {
  std::string kept = kept_generation(run);
  return kept.empty() ? generation_of_folder(model) : kept;
}

}  // namespace accrue::train
