#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/folder/tokenizer_files.h"
#include "models/generation/logit_rules.h"

namespace accrue::models {

using data::kGenerationConfig;

/// The settings in a generation_config.json for the likeliest continuation of a text. Its settings
/// for sampling (temperature, top_k) and length are left to the caller.
struct GenerationConfig {
  std::vector<std::int64_t> end_tokens;  ///< a text ends before any of them
  LogitRules rules;
  /// Keys that make transformers' generate() produce something else than end tokens and rules make
  /// of the model's logits: num_beams, stop_strings and the like.
  std::vector<std::string> not_applied;
};

/// Throws a usage Error that names `file`, and the key whose value is not possible.
GenerationConfig parse_generation_config(const std::string& text, const std::string& file);

/// That of a Hugging Face folder: its generation_config.json, or the same keys of config.json if
/// there is no such file or it is no object of JSON, as transformers takes them.
GenerationConfig read_generation_config(const std::filesystem::path& folder);

/// The text of what read_generation_config() reads, to be kept beside a model that comes of this
/// one: the file as it is, or an object with the keys that config.json states. Empty if there is
/// no such file and config.json states nothing.
std::string generation_config_text(const std::filesystem::path& folder);

/// Special tokens by their ids, as in config.json and generation_config.json.
struct SpecialTokens {
  std::optional<std::int64_t> begin, pad;
  std::vector<std::int64_t> ends;
};

/// The special tokens in a config; a value that is not the id of a token is ignored.
SpecialTokens stated_special_tokens(const nlohmann::ordered_json& config);

/// The config with these tokens; its other values are unchanged.
nlohmann::ordered_json with_special_tokens(nlohmann::ordered_json config,
                                           const SpecialTokens& tokens);

/// The object in a text; none if it is broken, something else, or too large to be a config.
std::optional<nlohmann::ordered_json> parsed_config(const std::string& text);

}  // namespace accrue::models
