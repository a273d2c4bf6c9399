#include "commands/trained_text.h"

#include <algorithm>

namespace accrue::cli {

bool trained_on_bytes(const train::Config& config, const models::Gpt2& model) {
  constexpr std::int64_t byte_vocabulary = 256;
  if (config.data.format != "auto") return config.data.format == "text";
  const auto names_token_files = [](const std::string& pattern) {
    return pattern.ends_with(".bin");
  };
  const auto& patterns = config.data.train;
  return model.options().vocab == byte_vocabulary &&
         std::none_of(patterns.begin(), patterns.end(), names_token_files);
}

}  // namespace accrue::cli
