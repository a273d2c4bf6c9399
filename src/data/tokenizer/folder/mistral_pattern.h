#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace accrue::data {

/// Whether transformers (5.24) corrects how a tokenizer cuts words: "fix_mistral_regex" of a
/// tokenizer_config.json requests it, and config.json is of a Mistral that an older version wrote.
/// Without a config.json `config` is null.
bool has_mistral_correction(const nlohmann::ordered_json& settings, const nlohmann::json& config,
                            std::size_t vocabulary_size);

/// "pre_tokenizer" of a tokenizer.json after the correction.
nlohmann::json corrected_for_mistral(const nlohmann::json& pre_tokenizer);

}  // namespace accrue::data
