#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::models {

/// How text is cut into words before byte-level BPE, by the names of "tokenizer.ggml.pre".
struct GgufPreTokenizer {
  std::string_view name;
  nlohmann::json pre_tokenizer;  ///< of a tokenizer.json; llama.cpp has no normalizer beside it
  bool ignores_merges = false;   ///< a word that is a token stays that token
  bool begins_text = false;      ///< a text begins with the BOS token unless a key states it
  /// The words that llama.cpp cuts differently than `pre_tokenizer`; empty if there are none.
  std::string_view other_words = {};
};

/// None for a name that this version does not know.
std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name);

/// "llama-bpe, dbrx, ...": only the main names.
std::string listed_gguf_pre_tokenizers();

/// Those under the main names that cut text like a part of a tokenizer.json. Properties that do not
/// affect cutting (offsets) are ignored.
std::vector<GgufPreTokenizer> gguf_pre_tokenizers_like(const nlohmann::json& pre_tokenizer);

/// Whether a part of a tokenizer.json only cuts text into words of bytes.
bool only_cuts_bytes(const nlohmann::json& pre_tokenizer);

}  // namespace accrue::models
