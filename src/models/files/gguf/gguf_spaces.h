#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::models {

/// What a tokenizer of characters does to a text before it merges, as llama.cpp can: spaces are
/// shown, and one is put before each piece of text.
struct GgufSpaces {
  bool prepends = false;  ///< "tokenizer.ggml.add_space_prefix"
  /// Whether the normalizer does so, by which tokens in normalized text are found.
  bool normalizer_shows = false, normalizer_prepends = false;
  std::string obstacle;     ///< what llama.cpp has not; empty: nothing
  std::string other_texts;  ///< which texts llama.cpp begins otherwise; empty: none
};

/// Of the parts of a tokenizer.json. `tokens` are those that merges make or start with.
GgufSpaces spaces_of(const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer,
                     const std::vector<std::string_view>& tokens);

/// The steps of a part, one after the other, Sequences taken apart; none of null.
std::vector<nlohmann::json> steps_within(const nlohmann::json& part, const char* of_sequence);

/// A part of a tokenizer.json in a message: "the normalizer {...}", not longer than one can be.
std::string quoted_part(std::string_view name, const nlohmann::json& part);

}  // namespace accrue::models
