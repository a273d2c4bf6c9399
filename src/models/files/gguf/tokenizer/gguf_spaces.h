#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::models {

/// The changes of a text by a tokenizer of characters before it merges, as far as llama.cpp can
/// make them: spaces are marked, and one is put before each piece of text.
struct GgufSpaces {
  bool prepends = false;  ///< "tokenizer.ggml.add_space_prefix"
  /// Whether the normalizer does so, which matters for tokens found in normalized text.
  bool normalizer_shows = false, normalizer_prepends = false;
  std::string obstacle;     ///< what llama.cpp does not support; or empty
  std::string other_texts;  ///< texts that llama.cpp begins differently; or empty
};

/// For the parts of a tokenizer.json. `tokens` are those that merges make or start with.
GgufSpaces spaces_of(const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer,
                     const std::vector<std::string_view>& tokens);

/// The steps of a part, in order, with Sequences expanded; none for null.
std::vector<nlohmann::json> steps_within(const nlohmann::json& part, const char* of_sequence);

/// A part of a tokenizer.json for a message: "the normalizer {...}", shortened if necessary.
std::string quoted_part(std::string_view name, const nlohmann::json& part);

}  // namespace accrue::models
