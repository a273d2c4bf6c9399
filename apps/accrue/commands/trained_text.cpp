#include "commands/trained_text.h"

#include <algorithm>

#include "accrue/core/error.h"

namespace accrue::cli {

models::Gpt2& expect_gpt2(models::Model& model, const std::string& operation,
                          const std::string& suggestion) {
  if (auto* gpt2 = dynamic_cast<models::Gpt2*>(&model)) return *gpt2;
  throw usage_error(operation, "a model of kind gpt2", model.kind(), suggestion);
}

bool trained_on_bytes(const train::Config& config, const models::Gpt2& model) {
  constexpr std::int64_t byte_vocabulary = 256;
  if (config.data.format == "text") return true;
  if (config.data.format == "tokens") return false;
  // JSONL may hold ids of any tokenizer: those of bytes need no larger vocabulary.
  const auto names_token_files = [](const std::string& pattern) {
    return pattern.ends_with(".bin");
  };
  const auto& patterns = config.data.train;
  return model.options().vocab == byte_vocabulary &&
         std::none_of(patterns.begin(), patterns.end(), names_token_files);
}

}  // namespace accrue::cli
